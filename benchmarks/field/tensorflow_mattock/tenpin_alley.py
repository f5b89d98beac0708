"""Ten-pin bowling: oil wear, ball motion and scoring expectations.

The alley's analysts fit three things from a night of league play:

* how the oil pattern on each lane wears off and is carried towards the pins
  as balls roll through it,
* how each bowler's ball skids, hooks and rolls out between foul line and
  pins (from the overhead camera's tracks), and
* how a bowler's per-frame skills turn into a game score.

All of them are trained jointly with ``GradientTape`` so the long recurrences
carry hand-derived gradients; that keeps the tape small (a three hour league
block has some 400 deliveries per pair of lanes).

Distances are in feet from the foul line and boards count from the right
gutter, as everyone in the trade does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

LANE_FEET = 60.0
BOARDS = 39
PINS = 10.0
REGULATION_FRAMES = 10
FILL_BALLS = 2
DEFAULT_ZONES = 6

HOUSE_PATTERN_ML = (3.2, 2.9, 2.1, 1.3, 0.6, 0.0)
SPORT_PATTERN_ML = (2.4, 2.4, 2.2, 2.0, 1.6, 0.9)


class BallMotion(NamedTuple):
    """Per-bowler motion parameters, each of shape ``[bowlers]``."""

    skid: tf.Tensor
    hook: tf.Tensor
    slope: tf.Tensor
    curvature: tf.Tensor


class FrameSkill(NamedTuple):
    """Logits and pin means as the skill network emits them."""

    strike: tf.Tensor
    first: tf.Tensor
    spare: tf.Tensor
    open_total: tf.Tensor


# --------------------------------------------------------------------------
# Oil
# --------------------------------------------------------------------------


def _downlane(x):
    """Move every zone's content one zone nearer to the pins."""
    return tf.concat([tf.zeros_like(x[..., :1]), x[..., :-1]], axis=-1)


@tf.custom_gradient
def oil_depletion(initial, coverage, pickup, carry):
    """Oil volume in each lane zone before every delivery and after the last.

    A ball takes up ``pickup * coverage`` of the oil of each zone that it
    crosses and leaves the share ``carry`` of it in the next zone; what is taken
    from the last zone leaves the lane with the ball.

    Parameters
    ----------
    initial : tf.Tensor, shape (lanes, zones)
        Volume laid by the machine, millilitres.
    coverage : tf.Tensor, shape (deliveries, lanes, zones)
        Fraction of the zone's width swept by the ball's track.
    pickup : tf.Tensor, shape (zones,)
        Fraction of the covered oil that the cover stock soaks up.
    carry : tf.Tensor, shape ()
        Share of the picked oil put down again one zone further.

    Returns
    -------
    tf.Tensor, shape (deliveries + 1, lanes, zones)
    """
    shots = coverage.shape[0]
    states = [initial]
    for t in range(shots):
        taken = pickup * coverage[t] * states[-1]
        states.append(states[-1] - taken + carry * _downlane(taken))
    history = tf.stack(states, axis=0)

    def grad(upstream):
        lam = upstream[shots]
        d_pickup = tf.zeros_like(pickup)
        d_carry = tf.zeros_like(carry)
        d_coverage = []
        for t in reversed(range(shots)):
            volume = states[t]
            swept = coverage[t]
            taken = pickup * swept * volume
            d_taken = carry * tf.roll(lam, shift=-1, axis=-1) - lam
            d_carry += tf.reduce_sum(lam[..., 1:] * taken[..., :-1])
            d_pickup += tf.reduce_sum(swept * volume * d_taken, axis=0)
            d_coverage.append(pickup * volume * d_taken)
            lam = upstream[t] + lam + pickup * swept * d_taken
        return lam, tf.stack(d_coverage[::-1], axis=0), d_pickup, d_carry

    return history, grad


def lane_friction(volume, dry=0.20, oiled=0.04, scale=1.1):
    """Coefficient of friction for a given oil volume per zone."""
    film = 1.0 - tf.exp(-volume / scale)
    return dry + (oiled - dry) * film


class OilModel(tf.keras.layers.Layer):
    """Learns pickup per zone and carrydown from friction read-outs."""

    def __init__(self, zones=DEFAULT_ZONES, **kwargs):
        super().__init__(**kwargs)
        self.zones = zones

    def build(self, input_shape):
        self.pickup_logit = self.add_weight(
            name="pickup_logit", shape=(self.zones,), initializer="zeros"
        )
        self.carry_logit = self.add_weight(
            name="carry_logit", shape=(), initializer="zeros"
        )
        self.pattern = self.add_weight(
            name="pattern",
            shape=(self.zones,),
            initializer=tf.keras.initializers.Constant(0.5),
        )

    def call(self, coverage):
        lanes = coverage.shape[1]
        start = tf.tile(tf.nn.softplus(self.pattern)[None], [lanes, 1])
        pickup = 0.1 * tf.sigmoid(tf.convert_to_tensor(self.pickup_logit))
        carry = tf.sigmoid(tf.convert_to_tensor(self.carry_logit))
        return lane_friction(oil_depletion(start, coverage, pickup, carry))


# --------------------------------------------------------------------------
# Ball motion
# --------------------------------------------------------------------------


@tf.custom_gradient
def ball_path(distance, skid, hook, slope, curvature):
    """Board offset of the ball against distance in three phases.

    Straight while skidding, a parabola while hooking, and straight along the
    final tangent once it rolls::

        distance: [M]   skid, hook, slope, curvature: [B]   ->   [B, M]
    """
    x = distance[None, :]
    start, length = skid[:, None], hook[:, None]
    turned = tf.clip_by_value(x - start, tf.zeros_like(length), length)
    rolled = tf.nn.relu(x - start - length)
    shape = 0.5 * turned * turned + length * rolled
    boards = slope[:, None] * x + curvature[:, None] * shape

    def grad(upstream):
        bend = curvature[:, None]
        d_distance = tf.reduce_sum(upstream * (slope[:, None] + bend * turned), axis=0)
        d_skid = -tf.reduce_sum(upstream * bend * turned, axis=1)
        d_hook = tf.reduce_sum(upstream * bend * rolled, axis=1)
        d_slope = tf.reduce_sum(upstream * x, axis=1)
        d_curvature = tf.reduce_sum(upstream * shape, axis=1)
        return d_distance, d_skid, d_hook, d_slope, d_curvature

    return boards, grad


def entry_angle(motion: BallMotion):
    """Degrees against the lane's axis at the pins (one board is 1.0641 in)."""
    feet_per_board = 1.0641 / 12.0
    tangent = motion.slope + motion.curvature * tf.clip_by_value(
        LANE_FEET - motion.skid, tf.zeros_like(motion.hook), motion.hook
    )
    return tf.atan(tangent * feet_per_board) * (180.0 / math.pi)


def fit_tracks(distance, boards, motion: BallMotion, steps=20, rate=1e-4):
    """A few plain gradient steps of least squares on camera tracks."""
    variables = [tf.Variable(p) for p in motion]
    for _ in range(steps):
        with tf.GradientTape() as tape:
            tensors = [tf.convert_to_tensor(v) for v in variables]
            residual = ball_path(distance, *tensors) - boards
            loss = tf.reduce_mean(residual * residual)
        for variable, slope in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(rate * slope)
    return BallMotion(*[tf.convert_to_tensor(v) for v in variables])


# --------------------------------------------------------------------------
# Scoring
# --------------------------------------------------------------------------


@tf.custom_gradient
def frame_pinfall(strike, first, spare, open_total):
    """Expected score of each frame with its bonus balls.

    Every argument is [bowlers, frames + 2]; the two columns at the end stand
    for the fill balls of the tenth frame.

    Args:
      strike: probability of a strike.
      first: mean first-ball count given no strike.
      spare: probability of converting given no strike.
      open_total: mean count of an open frame.

    Returns:
      [bowlers, frames] expected frame scores.
    """
    frames = strike.shape[1] - FILL_BALLS
    ball = PINS * strike + (1.0 - strike) * first
    settled = PINS * spare + (1.0 - spare) * open_total
    head = slice(0, frames)
    mid = slice(1, frames + 1)
    tail = slice(2, frames + 2)

    pair = strike[:, mid] * (PINS + ball[:, tail]) + (1.0 - strike[:, mid]) * settled[:, mid]
    after_miss = settled[:, head] + spare[:, head] * ball[:, mid]
    total = strike[:, head] * (PINS + pair) + (1.0 - strike[:, head]) * after_miss

    def grad(upstream):
        hit, miss = strike[:, head], 1.0 - strike[:, head]
        g_pair = upstream * hit
        g_ball_mid = upstream * miss * spare[:, head]
        g_ball_tail = g_pair * strike[:, tail]

        g_ball = tf.pad(g_ball_mid, [[0, 0], [1, 1]]) + tf.pad(g_ball_tail, [[0, 0], [2, 0]])
        g_settled = tf.pad(upstream * miss, [[0, 0], [0, 2]]) + tf.pad(
            g_pair * (1.0 - strike[:, mid]), [[0, 0], [1, 1]]
        )

        d_strike = tf.pad(upstream * (PINS + pair - after_miss), [[0, 0], [0, 2]])
        d_strike += tf.pad(g_pair * (PINS + ball[:, tail] - settled[:, mid]), [[0, 0], [1, 1]])
        d_strike += g_ball * (PINS - first)
        d_first = g_ball * (1.0 - strike)
        d_spare = tf.pad(upstream * miss * ball[:, mid], [[0, 0], [0, 2]])
        d_spare += g_settled * (PINS - open_total)
        d_open = g_settled * (1.0 - spare)
        return d_strike, d_first, d_spare, d_open

    return total, grad


def game_score(skill: FrameSkill):
    """Total expected score from network outputs."""
    frames = frame_pinfall(
        tf.sigmoid(skill.strike),
        9.0 * tf.sigmoid(skill.first),
        tf.sigmoid(skill.spare),
        9.0 * tf.sigmoid(skill.open_total),
    )
    return tf.reduce_sum(frames, axis=-1)


def make_shot_average(axis=-1):
    """Weighted mean of the recorded shots along ``axis``; groups without any give 0."""

    @tf.custom_gradient
    def shot_average(values, weights, recorded):
        present = tf.cast(recorded, values.dtype)
        mass = tf.reduce_sum(present * weights, axis=axis, keepdims=True)
        safe = tf.where(mass > 0, mass, tf.ones_like(mass))
        mean = tf.reduce_sum(present * weights * values, axis=axis, keepdims=True) / safe

        def grad(upstream):
            share = tf.expand_dims(upstream, axis) * present / safe
            return share * weights, share * (values - mean), None

        return tf.squeeze(mean, axis=axis), grad

    return shot_average


bowler_shot_average = make_shot_average(axis=-1)
delivery_shot_average = make_shot_average(axis=0)


class LeagueReport:
    """Collects the nightly figures of a league block."""

    def __init__(self, bowlers, shots):
        self.pocket = np.zeros((bowlers, shots), np.float32)
        self.seen = np.zeros((bowlers, shots), bool)
        self.weight = np.ones((bowlers, shots), np.float32)

    def record(self, bowler, shot, offset_boards, camera_quality=1.0):
        self.pocket[bowler, shot] = offset_boards
        self.weight[bowler, shot] = camera_quality
        self.seen[bowler, shot] = True

    def pocket_bias(self):
        """Mean offset from the 17.5 board per bowler."""
        return bowler_shot_average(
            tf.constant(self.pocket), tf.constant(self.weight), tf.constant(self.seen)
        )


def synthetic_coverage(deliveries, lanes, zones, seed=0):
    rng = np.random.default_rng(seed)
    swept = 0.05 + 0.5 * rng.random((deliveries, lanes, zones))
    return tf.constant(swept.astype(np.float32))


def demo():
    coverage = synthetic_coverage(deliveries=12, lanes=2, zones=DEFAULT_ZONES)
    pattern = tf.constant([HOUSE_PATTERN_ML, SPORT_PATTERN_ML], tf.float32)
    history = oil_depletion(
        pattern, coverage, tf.fill([DEFAULT_ZONES], 0.06), tf.constant(0.35)
    )
    print("oil left, ml:", tf.reduce_sum(history[-1], axis=-1).numpy())

    motion = BallMotion(
        skid=tf.constant([32.0, 38.0]),
        hook=tf.constant([12.0, 9.0]),
        slope=tf.constant([-0.20, -0.11]),
        curvature=tf.constant([0.045, 0.03]),
    )
    marks = tf.linspace(0.0, LANE_FEET, 13)
    print("boards at the pins:", ball_path(marks, *motion)[:, -1].numpy())
    print("entry angle:", entry_angle(motion).numpy())

    rng = np.random.default_rng(3)
    width = REGULATION_FRAMES + FILL_BALLS
    skill = FrameSkill(*[tf.constant(rng.normal(size=(3, width)), tf.float32) for _ in range(4)])
    print("expected games:", game_score(skill).numpy())

    report = LeagueReport(bowlers=3, shots=8)
    for bowler in (0, 2):
        for shot in range(5):
            report.record(bowler, shot, rng.normal(), camera_quality=0.5 + rng.random())
    print("pocket bias:", report.pocket_bias().numpy())


if __name__ == "__main__":
    demo()
