"""Strokes gained and shot planning for amateur golf rounds.

The baseline ("how many strokes does a scratch player need from here?") is a
table over lies and distances which is re-estimated from the club's own
ShotLink-style logs, so every stage from the shot coordinates to the round's
score has to be differentiable with respect to the table and to the player's
dispersion.

Distances off the green in yards, on the green in feet.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

CUP_RADIUS_FT = 4.25 / 24.0
BALL_RADIUS_FT = 1.68 / 24.0
HOLDING_TOLERANCE_FT = 3.0

TEE, FAIRWAY, ROUGH, SAND, RECOVERY = range(5)
KNOT_YARDS = (10.0, 30.0, 60.0, 100.0, 150.0, 200.0, 300.0, 450.0)

SCRATCH_BASELINE = (
    (2.40, 2.60, 2.75, 2.92, 2.99, 3.12, 3.71, 4.17),   # tee
    (2.18, 2.52, 2.70, 2.80, 2.95, 3.19, 3.78, 4.40),   # fairway
    (2.34, 2.70, 2.91, 3.02, 3.15, 3.42, 3.90, 4.60),   # rough
    (2.43, 2.66, 3.15, 3.23, 3.28, 3.55, 4.04, 4.79),   # sand
    (3.45, 3.55, 3.70, 3.80, 3.87, 3.94, 4.20, 4.96),   # recovery
)


# -- baseline ---------------------------------------------------------------


def _bracket(distance, knots):
    i = jnp.clip(jnp.searchsorted(knots, distance, side="right") - 1, 0, knots.shape[0] - 2)
    width = knots[i + 1] - knots[i]
    return i, (distance - knots[i]) / width, width


@jax.custom_vjp
def strokes_to_hole(baseline, distance, lie):
    """Expected strokes to hole out.

    Parameters
    ----------
    baseline : (5, 8) float
        Table over lies and ``KNOT_YARDS``.
    distance : (...) float
        Yards to the hole; taken as the nearest knot outside the table.
    lie : (...) int
        One of TEE, FAIRWAY, ROUGH, SAND, RECOVERY, same shape as `distance`.
    """
    knots = jnp.asarray(KNOT_YARDS, baseline.dtype)
    i, frac, _ = _bracket(distance, knots)
    frac = jnp.clip(frac, 0.0, 1.0)
    return (1.0 - frac) * baseline[lie, i] + frac * baseline[lie, i + 1]


def _strokes_fwd(baseline, distance, lie):
    return strokes_to_hole(baseline, distance, lie), (baseline, distance, lie)


def _strokes_bwd(res, g):
    baseline, distance, lie = res
    knots = jnp.asarray(KNOT_YARDS, baseline.dtype)
    i, frac, width = _bracket(distance, knots)
    inside = (frac >= 0.0) & (frac <= 1.0)
    frac = jnp.clip(frac, 0.0, 1.0)
    g_table = (
        jnp.zeros_like(baseline)
        .at[lie, i].add(g * (1.0 - frac))
        .at[lie, i + 1].add(g * frac)
    )
    slope = (baseline[lie, i + 1] - baseline[lie, i]) / width
    return g_table, jnp.where(inside, g * slope, 0.0), None


strokes_to_hole.defvjp(_strokes_fwd, _strokes_bwd)


# -- putting ----------------------------------------------------------------


class PuttingSkill(NamedTuple):
    angle: jax.Array      # radians
    pace: jax.Array       # relative spread of the distance rolled


def _putt_bounds(skill, feet, overshot):
    reach = feet + overshot
    half = jnp.arcsin((CUP_RADIUS_FT - BALL_RADIUS_FT) / feet) / skill.angle
    high = (HOLDING_TOLERANCE_FT - overshot) / (reach * skill.pace)
    low = -overshot / (reach * skill.pace)
    return half, high, low


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def holing_probability(skill, feet, overshot=1.0):
    """Chance of holing a putt of the given length.

    A putt drops when its line stays within the cup and its pace would take it
    between 0 and ``HOLDING_TOLERANCE_FT`` past the hole; the player aims
    ``overshot`` feet past it.

    Args:
        skill: PuttingSkill of scalars.
        feet: lengths of the putts, any shape, beyond the cup's radius.
        overshot: aim past the hole, feet.
    """
    half, high, low = _putt_bounds(skill, feet, overshot)
    return (2.0 * norm.cdf(half) - 1.0) * (norm.cdf(high) - norm.cdf(low))


@holing_probability.defjvp
def _holing_jvp(overshot, primals, tangents):
    skill, feet = primals
    d_skill, d_feet = tangents
    half, high, low = _putt_bounds(skill, feet, overshot)
    line = 2.0 * norm.cdf(half) - 1.0
    pace = norm.cdf(high) - norm.cdf(low)

    ratio = (CUP_RADIUS_FT - BALL_RADIUS_FT) / feet
    d_half = (
        -ratio / (feet * jnp.sqrt(1.0 - ratio**2)) / skill.angle * d_feet
        - half / skill.angle * d_skill.angle
    )
    reach = feet + overshot
    squeeze = 1.0 / (skill.pace * reach**2)
    d_high = -(HOLDING_TOLERANCE_FT - overshot) * squeeze * d_feet - high / skill.pace * d_skill.pace
    d_low = squeeze * d_feet - low / skill.pace * d_skill.pace

    d_line = 2.0 * norm.pdf(half) * d_half
    d_pace = norm.pdf(high) * d_high - norm.pdf(low) * d_low
    return line * pace, d_line * pace + line * d_pace


def expected_putts(skill, feet, overshot=1.0, second=0.97):
    """Putts to hole out when the second putt drops with probability ``second``."""
    p = holing_probability(skill, feet, overshot)
    return p + (1.0 - p) * (2.0 + (1.0 - second))


# -- club carry ---------------------------------------------------------------


def make_carry_model(club):
    """Carry of each logged shot in the conditions of the day.

    ``club`` is an integer (N,) table of club indices into the arrays of the
    parameter dict:

        stock : (C,) yards, still air at 70 F, sea level
        head  : (C,) share of carry lost per mph of headwind
        tail  : (C,) share of carry gained per mph of tailwind
        heat  : scalar, share gained per 10 F
        lift  : scalar, share gained per 1000 ft
    """
    club = jnp.asarray(club, jnp.int32)

    @jax.custom_gradient
    def adjusted_carry(bag, wind, fahrenheit, altitude_ft):
        # wind (N,), positive into the player's face; fahrenheit, altitude_ft scalars
        against = jnp.maximum(wind, 0.0)
        behind = jnp.maximum(-wind, 0.0)
        stock, head, tail = bag["stock"][club], bag["head"][club], bag["tail"][club]
        gust = 1.0 - head * against + tail * behind
        warmth = (fahrenheit - 70.0) / 10.0
        rise = altitude_ft / 1000.0
        air = 1.0 + bag["heat"] * warmth + bag["lift"] * rise

        def grad(g):
            by_gust = g * stock * air
            by_air = jnp.sum(g * stock * gust)
            scatter = lambda v: jnp.zeros_like(bag["stock"]).at[club].add(v)
            g_bag = dict(
                stock=scatter(g * gust * air),
                head=scatter(-by_gust * against),
                tail=scatter(by_gust * behind),
                heat=by_air * warmth,
                lift=by_air * rise,
            )
            g_wind = -by_gust * jnp.where(wind > 0, head, tail)
            return g_bag, g_wind, by_air * bag["heat"] / 10.0, by_air * bag["lift"] / 1000.0

        return stock * gust * air, grad

    return adjusted_carry


# -- strokes gained -----------------------------------------------------------


@jax.custom_vjp
def hole_gains(expected, penalty, shots):
    """Strokes gained by every shot of every hole.

    ``expected[h, s]`` is the baseline before shot ``s`` and ``penalty[h, s]``
    the penalty strokes that it cost, both (H, S); ``shots`` (H,) is the integer
    number of shots played.  After the last shot the ball is in the hole, with
    nothing left to play; slots past it gain nothing.
    """
    slot = jnp.arange(expected.shape[1])
    played = slot[None, :] < shots[:, None]
    remains = slot[None, :] + 1 < shots[:, None]
    following = jnp.pad(expected[:, 1:], ((0, 0), (0, 1)))
    gain = expected - jnp.where(remains, following, 0.0) - 1.0 - penalty
    return jnp.where(played, gain, 0.0)


def _gains_fwd(expected, penalty, shots):
    return hole_gains(expected, penalty, shots), (shots,)


def _gains_bwd(res, g):
    (shots,) = res
    slot = jnp.arange(g.shape[1])
    g = jnp.where(slot[None, :] < shots[:, None], g, 0.0)
    arriving = jnp.pad(g[:, :-1], ((0, 0), (1, 0)))
    return g - arriving, -g, None


hole_gains.defvjp(_gains_fwd, _gains_bwd)


class RoundLog(NamedTuple):
    """A padded round: (H, S) arrays and the shots of each hole."""

    distance: jax.Array
    lie: jax.Array
    penalty: jax.Array
    shots: jax.Array


def round_report(baseline, log, weights=None):
    """Strokes gained by lie, (5,), over the round."""
    expected = strokes_to_hole(baseline, log.distance, log.lie)
    gain = hole_gains(expected, log.penalty, log.shots)
    if weights is not None:
        gain = gain * weights
    return jax.ops.segment_sum(gain.ravel(), log.lie.ravel(), 5)


def baseline_loss(baseline, log, ridge=0.05):
    """Re-estimation objective: gains of the field average out, shot by shot."""
    expected = strokes_to_hole(baseline, log.distance, log.lie)
    gain = hole_gains(expected, log.penalty, log.shots)
    prior = jnp.asarray(SCRATCH_BASELINE, baseline.dtype)
    return jnp.mean(gain**2) + ridge * jnp.mean((baseline - prior) ** 2)


def plan_hole(bag, skill, wind, target, club=(0, 1, 2)):
    carry = make_carry_model(club)(bag, wind, 82.0, 1200.0)
    leave_ft = 3.0 * jnp.abs(target - carry) + 4.0
    return 1.0 + expected_putts(skill, leave_ft, overshot=1.5)


if __name__ == "__main__":
    bag = dict(
        stock=jnp.array([165.0, 152.0, 140.0]),
        head=jnp.array([0.010, 0.011, 0.012]),
        tail=jnp.array([0.005, 0.006, 0.006]),
        heat=jnp.asarray(0.01),
        lift=jnp.asarray(0.0116),
    )
    skill = PuttingSkill(jnp.asarray(0.026), jnp.asarray(0.08))
    print(plan_hole(bag, skill, jnp.array([8.0, -5.0, 0.5]), 158.0))
    log = RoundLog(
        distance=jnp.array([[380.0, 140.0, 12.0, 10.0], [165.0, 20.0, 10.0, 10.0]]),
        lie=jnp.array([[0, 1, 3, 1], [0, 2, 1, 1]]),
        penalty=jnp.zeros((2, 4)),
        shots=jnp.array([4, 3]),
    )
    table = jnp.asarray(SCRATCH_BASELINE)
    print(round_report(table, log))
    print(jax.grad(baseline_loss)(table, log).shape)
