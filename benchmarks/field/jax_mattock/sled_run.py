"""Bobsleigh and skeleton run simulation on an iced track.

A run is cut into equal arc-length segments.  The crew pushes the sled over
the first fifty metres, loads, and then the sled is a point mass on ice with
quadratic air drag and Coulomb friction that depends on ice temperature and
speed.  In curves the sled climbs the wall until the resultant of weight and
centrifugal load is normal to the ice.

The fits in ``fit_run`` adjust drag area, friction and crew strength to the
published split times of training heats; the gradients are supplied by hand so
that a march over a few thousand segments keeps a small tape.
"""

from __future__ import annotations

from functools import partial
from typing import Mapping, NamedTuple, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy as np

GRAVITY = 9.80665
SPEED_FLOOR = 0.5  # m/s; a sled slower than this is pushed by hand

# optimum of the ice friction curve and its width (deg C)
ICE_OPTIMUM = -7.0
ICE_WIDTH = 9.0
REFERENCE_SPEED = 25.0

HILL_CURVATURE = 0.45


class Track(NamedTuple):
    """sin_grade, radius: per segment. gates: photocell segment numbers."""

    sin_grade: jax.Array
    radius: jax.Array
    gates: jax.Array
    step: float


def _float0_like(table):
    return np.zeros(np.shape(table), dtype=jax.dtypes.float0)


def _fold_to(value, like):
    """Sum ``value`` down to the shape of ``like``."""
    shape = jnp.shape(like)
    extra = value.ndim - len(shape)
    value = value.sum(axis=tuple(range(extra))) if extra else value
    squeezed = tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1)
    return value.sum(axis=squeezed, keepdims=True) if squeezed else value


def pad_gates(gates: Sequence[int], count: int, last: int) -> jax.Array:
    """Photocell table of a fixed size.

    Tracks have five to eight photocells; shorter tables are filled up with the
    finish segment so that several tracks can be batched.
    """
    table = list(gates)[:count]
    table += [last] * (count - len(table))
    return jnp.asarray(table, dtype=jnp.int32)


# ---------------------------------------------------------------------------
# curves
# ---------------------------------------------------------------------------


@jax.custom_vjp
def wall_climb(speed, radius, half_width, half_height):
    """Height on an elliptic wall at which the sled balances.

    The wall is a quarter ellipse with horizontal half axis ``half_width`` and
    vertical half axis ``half_height``.  All four arguments broadcast against
    one another, e.g. speed (heats, segments) with radius (segments,) and
    scalar axes.
    """
    q = half_width * speed**2 / (half_height * GRAVITY * radius)
    return half_height * (1.0 - jax.lax.rsqrt(1.0 + q * q))


def _wall_fwd(speed, radius, half_width, half_height):
    out = wall_climb(speed, radius, half_width, half_height)
    return out, (speed, radius, half_width, half_height)


def _wall_bwd(res, g):
    speed, radius, half_width, half_height = res
    scale = half_width / (half_height * GRAVITY * radius)
    q = scale * speed**2
    inv = jax.lax.rsqrt(1.0 + q * q)
    g_q = g * half_height * q * inv**3
    d_speed = g_q * 2.0 * scale * speed
    d_radius = -g_q * q / radius
    d_width = g_q * speed**2 / (half_height * GRAVITY * radius)
    d_height = g * (1.0 - inv) - g_q * q / half_height
    return (
        _fold_to(d_speed, speed),
        _fold_to(d_radius, radius),
        _fold_to(d_width, half_width),
        _fold_to(d_height, half_height),
    )


wall_climb.defvjp(_wall_fwd, _wall_bwd)


def wall_load(speed, radius):
    """Load normal to the ice in units of g."""
    return jnp.sqrt(1.0 + (speed**2 / (GRAVITY * radius)) ** 2)


# ---------------------------------------------------------------------------
# ice
# ---------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def glide_coefficient(base, ice_temperature, speed, exponent=0.5):
    """Friction coefficient of steel runners on track ice.

    :param base: coefficient at the optimum temperature and 25 m/s
    :param ice_temperature: deg C
    :param speed: m/s, positive
    :param exponent: fall of friction with speed (melt film)
    """
    cold = (ice_temperature - ICE_OPTIMUM) / ICE_WIDTH
    return base * (1.0 + cold**2) * (speed / REFERENCE_SPEED) ** (-exponent)


@glide_coefficient.defjvp
def _glide_coefficient_jvp(exponent, primals, tangents):
    base, ice_temperature, speed = primals
    base_dot, temperature_dot, speed_dot = tangents
    cold = (ice_temperature - ICE_OPTIMUM) / ICE_WIDTH
    bowl = 1.0 + cold**2
    film = (speed / REFERENCE_SPEED) ** (-exponent)
    mu = base * bowl * film
    mu_dot = (
        bowl * film * base_dot
        + base * film * 2.0 * cold / ICE_WIDTH * temperature_dot
        - exponent * mu / speed * speed_dot
    )
    return mu, mu_dot


# ---------------------------------------------------------------------------
# descent
# ---------------------------------------------------------------------------


def _descend(sin_grade, friction, drag, entry_speed, step):
    cos_grade = jnp.sqrt(1.0 - sin_grade**2)
    push = 2.0 * step * GRAVITY * (sin_grade - friction * cos_grade)
    keep = 1.0 - 2.0 * drag * step
    floor = SPEED_FLOOR**2

    def body(energy, gain):
        raw = keep * energy + gain
        return jnp.maximum(raw, floor), (energy, raw)

    last, (before, raw) = jax.lax.scan(body, entry_speed**2, push)
    v0, v1 = jnp.sqrt(before), jnp.sqrt(jnp.maximum(raw, floor))
    return v0, v1, raw > floor, jnp.sqrt(last)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def photocell_splits(sin_grade, friction, drag, entry_speed, gates, step):
    """Time at each photocell and the speed at the finish.

    Parameters
    ----------
    sin_grade : (n_segments,) sine of the slope, positive downhill
    friction : scalar friction coefficient
    drag : scalar, 0.5 rho cd A / m in 1/m
    entry_speed : scalar, m/s after loading
    gates : (n_gates,) int, segment whose end carries the photocell; see
        ``pad_gates``
    step : float, segment length in m

    Returns
    -------
    splits (n_gates,), finish_speed ()
    """
    v0, v1, _, finish = _descend(sin_grade, friction, drag, entry_speed, step)
    clock = jnp.cumsum(2.0 * step / (v0 + v1))
    return clock[gates], finish


def _splits_fwd(sin_grade, friction, drag, entry_speed, gates, step):
    v0, v1, rolling, finish = _descend(sin_grade, friction, drag, entry_speed, step)
    clock = jnp.cumsum(2.0 * step / (v0 + v1))
    return (clock[gates], finish), (sin_grade, friction, drag, gates, v0, v1, rolling)


def _splits_bwd(step, res, cotangents):
    sin_grade, friction, drag, gates, v0, v1, rolling = res
    g_splits, g_finish = cotangents
    cos_grade = jnp.sqrt(1.0 - sin_grade**2)

    g_clock = jnp.zeros_like(v0).at[gates].set(g_splits)
    g_slice = jnp.cumsum(g_clock[::-1])[::-1]
    pace = -2.0 * step / (v0 + v1) ** 2
    to_before = g_slice * pace / (2.0 * v0)
    to_after = g_slice * pace / (2.0 * v1)
    keep = 1.0 - 2.0 * drag * step

    def body(lam, row):
        before, after, live = row
        lam_raw = jnp.where(live, lam + after, 0.0)
        return keep * lam_raw + before, lam_raw

    lam0, lam_raw = jax.lax.scan(
        body, g_finish / (2.0 * v1[-1]), (to_before, to_after, rolling), reverse=True
    )
    gain = 2.0 * step * GRAVITY
    d_sin = lam_raw * gain * (1.0 + friction * sin_grade / cos_grade)
    d_friction = -gain * jnp.sum(lam_raw * cos_grade)
    d_drag = -2.0 * step * jnp.sum(lam_raw * v0**2)
    d_entry = 2.0 * v0[0] * lam0
    return d_sin, d_friction, d_drag, d_entry, _float0_like(gates)


photocell_splits.defvjp(_splits_fwd, _splits_bwd)


# ---------------------------------------------------------------------------
# start
# ---------------------------------------------------------------------------


class PushCrew:
    """Push phase of a crew with Hill-type force/speed curves.

    Athlete j gives ``f0[j] * (1 - u) / (1 + u / k)`` newtons, u being sled
    speed over the athlete's own top running speed, and nothing once the sled
    outruns the athlete.
    """

    def __init__(self, sled_mass: float, curvature: float = HILL_CURVATURE):
        self.sled_mass = sled_mass
        self.curvature = curvature
        self.drive = self._build(curvature)

    @staticmethod
    def _build(curvature):
        def hill(u):
            return (1.0 - u) / (1.0 + u / curvature)

        @jax.custom_vjp
        def crew_drive(speed, force, top_speed, on_foot, mass):
            # speed (heats,), force & top_speed (athletes,),
            # on_foot (heats, athletes) 0/1, mass (heats,) -> (heats,)
            u = speed[:, None] / top_speed
            effort = on_foot * force * jnp.maximum(hill(u), 0.0)
            return effort.sum(axis=1) / mass

        def forward(speed, force, top_speed, on_foot, mass):
            acc = crew_drive(speed, force, top_speed, on_foot, mass)
            return acc, (speed, force, top_speed, on_foot, mass, acc)

        def backward(res, g):
            speed, force, top_speed, on_foot, mass, acc = res
            u = speed[:, None] / top_speed
            level = jnp.maximum(hill(u), 0.0)
            slope = -(1.0 + 1.0 / curvature) / (1.0 + u / curvature) ** 2
            each = (g / mass)[:, None] * on_foot
            d_u = each * force * slope
            d_speed = jnp.sum(d_u / top_speed, axis=1)
            d_top = -jnp.sum(d_u * u / top_speed, axis=0)
            d_force = jnp.sum(each * level, axis=0)
            d_on_foot = (g / mass)[:, None] * force * level
            d_mass = -g * acc / mass
            return d_speed, d_force, d_top, d_on_foot, d_mass

        crew_drive.defvjp(forward, backward)
        return crew_drive

    def start(self, force, top_speed, load_steps, crew_mass, dt=0.05, steps=100):
        """Speed after ``steps`` of pushing, one entry per heat.

        load_steps (heats, athletes): the step at which each athlete jumps in.
        """
        heats = load_steps.shape[0]

        def body(speed, n):
            on_foot = (n < load_steps).astype(speed.dtype)
            aboard = (1.0 - on_foot) @ crew_mass
            acc = self.drive(speed, force, top_speed, on_foot, self.sled_mass + aboard)
            return speed + dt * (acc + 0.02 * GRAVITY), None

        speed, _ = jax.lax.scan(body, jnp.zeros(heats), jnp.arange(steps))
        return speed


# ---------------------------------------------------------------------------
# fitting
# ---------------------------------------------------------------------------


def run_splits(params: Mapping[str, jax.Array], track: Track, ice_temperature):
    mu = glide_coefficient(params["mu"], ice_temperature, params["entry_speed"] + 15.0)
    return photocell_splits(
        track.sin_grade, mu, params["drag"], params["entry_speed"], track.gates, track.step
    )


def fit_run(params, track, ice_temperature, observed, rate: float = 1e-6, steps: int = 50,
            weights: Optional[jax.Array] = None):
    """Plain gradient descent on squared split errors."""
    w = jnp.ones_like(observed) if weights is None else weights

    def loss(p):
        splits, _ = run_splits(p, track, ice_temperature)
        return jnp.sum(w * (splits - observed) ** 2)

    step = jax.jit(jax.value_and_grad(loss))
    value = None
    for _ in range(steps):
        value, grad = step(params)
        params = jax.tree_util.tree_map(lambda a, b: a - rate * b, params, grad)
    return params, value


if __name__ == "__main__":
    n = 600
    track = Track(
        jnp.full(n, 0.09), jnp.full(n, 30.0), pad_gates([50, 180, 330, 480, 599], 8, n - 1), 2.0
    )
    guess = {"mu": jnp.asarray(0.006), "drag": jnp.asarray(3.5e-4), "entry_speed": jnp.asarray(10.0)}
    splits, finish = run_splits(guess, track, -6.0)
    print("splits", splits, "finish", finish)
    print("climb", wall_climb(finish, jnp.asarray([20.0, 35.0]), 1.4, 4.0), wall_load(finish, 20.0))
    crew = PushCrew(170.0)
    print("start", crew.start(jnp.asarray([420.0, 400.0]), jnp.asarray([9.6, 10.4]),
                              jnp.asarray([[80, 95], [85, 100]]), jnp.asarray([95.0, 102.0])))
