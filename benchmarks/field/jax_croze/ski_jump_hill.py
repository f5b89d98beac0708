"""Ski jumping: the in-run, the wind compensation, the landing and the legs at landing."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

G = 9.81
TAIL_WIND_RATE = 1.21  # tail wind costs more than head wind helps


class Hill(NamedTuple):
    """Knoll below the take-off: y = -(lip + a x + b x^2 + c x^3), metres."""
    lip: jax.Array
    a: jax.Array
    b: jax.Array
    c: jax.Array


def _march(angles, friction, drag, push, ds):
    keep = 1.0 - 2.0 * ds * drag

    def step(e, angle):
        e = keep * e + 2.0 * ds * G * (jnp.sin(angle) - friction * jnp.cos(angle))
        return e, e

    _, energies = jax.lax.scan(step, push ** 2 + 0.0 * angles[0], angles)
    return energies


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def inrun_speed(angles, friction, drag, push, ds):
    """Speed after each of the in-run's N pieces of length ``ds``.

    angles: (N,) slope of every piece in radians, positive downhill and steep enough for
        the jumper to keep moving; friction: ski friction coefficient; drag: air drag per
        mass and squared speed (1/m); push: speed off the start bar (may be zero).
    """
    return jnp.sqrt(_march(angles, friction, drag, push, ds))


def _inrun_fwd(angles, friction, drag, push, ds):
    e = _march(angles, friction, drag, push, ds)
    return jnp.sqrt(e), (angles, friction, drag, push, e)


def _inrun_bwd(ds, res, g):
    angles, friction, drag, push, e = res
    keep = 1.0 - 2.0 * ds * drag
    ge = g / (2.0 * jnp.sqrt(e))

    def back(lam, ge_i):
        lam = ge_i + keep * lam
        return lam, lam

    _, lams = jax.lax.scan(back, jnp.zeros_like(e[0]), ge, reverse=True)
    before = jnp.concatenate([(push ** 2 + 0.0 * e[:1]), e[:-1]])
    d_angles = 2.0 * ds * G * lams * (jnp.cos(angles) + friction * jnp.sin(angles))
    d_friction = -2.0 * ds * G * (lams * jnp.cos(angles)).sum()
    d_drag = -2.0 * ds * (lams * before).sum()
    return d_angles, d_friction, d_drag, 2.0 * push * keep * lams[0]


inrun_speed.defvjp(_inrun_fwd, _inrun_bwd)


@jax.custom_jvp
def wind_points(winds, weights, per_metre):
    """Points for the wind of each jump.

    ``winds`` (jumps, sensors) are tangential winds in m/s, head wind positive, and
    ``weights`` (sensors,) say how much each sensor along the hill counts.  Head wind is
    deducted at ``per_metre`` points per m/s, tail wind credited at 1.21 times that.
    """
    mean = winds @ weights
    rate = jnp.where(mean < 0, TAIL_WIND_RATE, 1.0) * per_metre
    return -rate * mean


@wind_points.defjvp
def _wind_points_jvp(primals, tangents):
    winds, weights, per_metre = primals
    dwinds, dweights, dper_metre = tangents
    points = wind_points(winds, weights, per_metre)
    dmean = dwinds @ weights + winds @ dweights
    dpoints = -per_metre * dmean + points / per_metre * dper_metre
    return points, dpoints


def make_landing(start=60.0, iterations=40):
    """Landing point of a ballistic flight on a given hill.

    Returns ``landing_distance(speed, launch, hill)``: the horizontal distance at which a
    jumper who leaves the lip at ``speed`` (m/s) under ``launch`` (radians above the
    horizontal, usually negative) meets the hill.  speed and launch broadcast.
    """

    def height(x, speed, launch, hill):
        flight = x * jnp.tan(launch) - G * x ** 2 / (2.0 * (speed * jnp.cos(launch)) ** 2)
        return flight + hill.lip + x * (hill.a + x * (hill.b + x * hill.c))

    def slope(x, speed, launch, hill):
        fall = jnp.tan(launch) - G * x / (speed * jnp.cos(launch)) ** 2
        return fall + hill.a + x * (2.0 * hill.b + 3.0 * x * hill.c)

    @jax.custom_jvp
    def landing_distance(speed, launch, hill):
        x0 = start + 0.0 * (speed + launch)

        def newton(_, x):
            return x - height(x, speed, launch, hill) / slope(x, speed, launch, hill)

        return jax.lax.fori_loop(0, iterations, newton, x0)

    @landing_distance.defjvp
    def landing_jvp(primals, tangents):
        x = landing_distance(*primals)
        _, dheight = jax.jvp(lambda *p: height(x, *p), primals, tangents)
        return x, -dheight / slope(x, *primals)

    return landing_distance


def _impulse(force, dt):
    return dt * (force.sum(axis=-1) - 0.5 * (force[..., 0] + force[..., -1]))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def landing_asymmetry(left, right, dt):
    """Symmetry index 2 (L - R) / (L + R) of the landing impulses.

    left, right: (jumps, samples) forces in N from the two insoles, sampled every ``dt``
    seconds; impulses by the trapezoidal rule. Zero is a textbook telemark.
    """
    l, r = _impulse(left, dt), _impulse(right, dt)
    return 2.0 * (l - r) / (l + r)


def _asymmetry_fwd(left, right, dt):
    l, r = _impulse(left, dt), _impulse(right, dt)
    return 2.0 * (l - r) / (l + r), (l, r, left)


def _asymmetry_bwd(dt, res, g):
    l, r, left = res
    ends = jnp.ones_like(left).at[..., 0].set(0.5).at[..., -1].set(0.5)
    common = 4.0 * g / (l + r) ** 2
    d_left = dt * (common * l)[:, None] * ends
    d_right = -dt * (common * r)[:, None] * ends
    return d_left, d_right


landing_asymmetry.defvjp(_asymmetry_fwd, _asymmetry_bwd)
