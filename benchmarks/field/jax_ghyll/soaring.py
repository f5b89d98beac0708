"""Cross-country soaring: lift, speed to fly and task speed of gliders.

Speeds in m/s, lengths in m, angles in rad clockwise from north.  x is east and
y is north.
"""
import dataclasses
from functools import partial

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Envelope:
    """Speeds between which the glider may be flown."""
    slowest: float = 22.0
    fastest: float = 70.0


STANDARD_CLASS = {"polar": (-0.0015, 0.07, -1.45), "envelope": Envelope()}


# Sink polar w(v) = a v^2 + b v + c, with a < 0 and c < 0; a wing loading n times
# the reference moves it to sqrt(n) w(v / sqrt(n)).


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def speed_to_fly(maccready, netto, loading, polar, envelope=Envelope()):
    """MacCready speed.

    maccready: expected climb, any shape
    netto: vertical speed of the air on the glide, same shape
    loading: wing loading over the reference loading, same shape
    polar: (a, b, c), array of three
    """
    v2 = _best_square(maccready - netto, loading, polar)
    low, high = envelope.slowest, envelope.fastest
    return jnp.sqrt(jnp.clip(v2, low ** 2, high ** 2))


def _best_square(m, loading, polar):
    return (polar[2] * loading - m * jnp.sqrt(loading)) / polar[0]


@speed_to_fly.defjvp
def _speed_to_fly_jvp(envelope, primals, tangents):
    maccready, netto, loading, polar = primals
    d_mc, d_netto, d_load, d_polar = tangents
    m = maccready - netto
    root = jnp.sqrt(loading)
    v2 = _best_square(m, loading, polar)
    free = (v2 > envelope.slowest ** 2) & (v2 < envelope.fastest ** 2)
    v = jnp.sqrt(jnp.clip(v2, envelope.slowest ** 2, envelope.fastest ** 2))
    d_v2 = (-root * (d_mc - d_netto)
            + (polar[2] - 0.5 * m * root) * d_load
            + loading * d_polar[2]
            - v2 * d_polar[0]) / polar[0]
    return v, jnp.where(free, 0.5 / v, 0.0) * d_v2


@partial(jax.custom_jvp, nondiff_argnums=(6,))
def updraft(xy, height, centres, strength, radius, lean, core_only=False):
    """Vertical air speed from a field of leaning thermals.

    xy: (..., 2) positions;  height: (...) above ground
    centres: (thermals, 2) at the ground;  strength, radius: (thermals,)
    lean: (2,) horizontal drift of the axis per metre of height
    core_only: leave the sinking ring around a core out
    """
    return _thermals(xy, height, centres, strength, radius, lean, core_only)[0]


def _thermals(xy, height, centres, strength, radius, lean, core_only):
    off = xy[..., None, :] - centres - (height[..., None] * lean)[..., None, :]
    rho = (off ** 2).sum(-1) / radius ** 2
    shape = (1.0 - rho) * jnp.exp(-rho)
    if core_only:
        shape = jnp.where(rho < 1.0, shape, 0.0)
    return (strength * shape).sum(-1), off, rho, shape


@updraft.defjvp
def _updraft_jvp(core_only, primals, tangents):
    xy, height, centres, strength, radius, lean = primals
    d_xy, d_height, d_centres, d_strength, d_radius, d_lean = tangents
    w, off, rho, shape = _thermals(*primals, core_only)
    shift = d_height[..., None] * lean + height[..., None] * d_lean
    d_off = d_xy[..., None, :] - d_centres - shift[..., None, :]
    d_rho = 2.0 * (off * d_off).sum(-1) / radius ** 2 - 2.0 * rho * d_radius / radius
    slope = -(2.0 - rho) * jnp.exp(-rho)
    if core_only:
        slope = jnp.where(rho < 1.0, slope, 0.0)
    return w, (d_strength * shape + strength * slope * d_rho).sum(-1)


@jax.custom_vjp
def task_speed(lengths, bearings, airspeed, wind, flown):
    """Mean speed around a task, per pilot.

    lengths, bearings: (pilots, legs) of the legs over the ground
    airspeed: (pilots,) cruise speed, above the wind
    wind: (2,) for the day or (pilots, 2); the direction in which the air moves
    flown: bool (pilots, legs), one leg or more for each pilot
    """
    return _task_fwd(lengths, bearings, airspeed, wind, flown)[0]


def _components(bearings, wind):
    east, north = wind[..., 0, None], wind[..., 1, None]
    sin, cos = jnp.sin(bearings), jnp.cos(bearings)
    return east * sin + north * cos, east * cos - north * sin, sin, cos


def _task_fwd(lengths, bearings, airspeed, wind, flown):
    along, cross, _, _ = _components(bearings, wind)
    still = jnp.sqrt(airspeed[:, None] ** 2 - cross ** 2)   # airspeed left along the track
    ground = along + still
    metres = jnp.where(flown, lengths, 0.0)
    distance, time = metres.sum(-1), (metres / ground).sum(-1)
    return distance / time, (metres, bearings, airspeed, wind, flown, still, ground, time, distance)


def _task_bwd(res, g):
    metres, bearings, airspeed, wind, flown, still, ground, time, distance = res
    along, cross, sin, cos = _components(bearings, wind)
    g_time = (-g * distance / time ** 2)[:, None]
    d_lengths = jnp.where(flown, (g / time)[:, None] + g_time / ground, 0.0)
    g_ground = -g_time * metres / ground ** 2
    g_cross = -g_ground * cross / still
    d_airspeed = (g_ground * airspeed[:, None] / still).sum(-1)
    d_wind = jnp.stack([(g_ground * sin + g_cross * cos).sum(-1),
                        (g_ground * cos - g_cross * sin).sum(-1)], axis=-1)
    if wind.ndim == 1:
        d_wind = d_wind.sum(0)
    d_bearings = g_ground * cross
    return d_lengths, d_bearings, d_airspeed, d_wind, None


task_speed.defvjp(_task_fwd, _task_bwd)


def plan(task, weather, glider=STANDARD_CLASS):
    """Task speed at the MacCready speed of the day, with ``task`` and ``weather`` as dicts."""
    v = speed_to_fly(weather["climb"], weather["netto"], task["loading"],
                     jnp.asarray(glider["polar"]), glider["envelope"])
    return task_speed(task["lengths"], task["bearings"], v, weather["wind"], task["flown"])
