"""Planning a fireworks show fired from a barge.

Three things the planner optimises through: how high a shell gets, when the
cues of a salvo must be sent, and how much spent casing falls on the seats.
SI units (metres, seconds, kilograms) everywhere.
"""
from functools import partial
import math

import jax
import jax.numpy as jnp

GRAVITY = 9.80665

# log1p(u)/u and its derivative near u = 0, highest power first
_SMALL = 0.02
_F = [(-1.0) ** n / (n + 1) for n in range(9)][::-1]
_DF = [(-1.0) ** n * n / (n + 1) for n in range(1, 10)][::-1]


def _log1p_ratio(u):
    small = u < _SMALL
    big = jnp.where(small, 1.0, u)
    return jnp.where(small, jnp.polyval(jnp.array(_F, u.dtype), u), jnp.log1p(big) / big)


@jax.custom_jvp
def apex_height(speed, drag):
    """Height of the top of a vertical flight with quadratic drag.

    The shell leaves the mortar at `speed` and is slowed by
    ``GRAVITY + drag * v**2``; ``drag = 0`` is the flight in vacuum.  Arguments
    broadcast against each other.

        h = speed**2 / (2 g) * log(1 + u) / u,    u = drag * speed**2 / g
    """
    u = jnp.asarray(drag * speed ** 2 / GRAVITY)
    return speed ** 2 / (2 * GRAVITY) * _log1p_ratio(u)


@apex_height.defjvp
def _apex_height_jvp(primals, tangents):
    speed, drag = primals
    dspeed, ddrag = tangents
    u = jnp.asarray(drag * speed ** 2 / GRAVITY)
    small = u < _SMALL
    big = jnp.where(small, 1.0, u)
    df = jnp.where(small, jnp.polyval(jnp.array(_DF, u.dtype), u),
                   (1 / (1 + big) - jnp.log1p(big) / big) / big)
    # by speed the terms of log(1+u)/(2 drag) collapse to v / (g (1 + u))
    by_speed = speed / (GRAVITY * (1 + u))
    by_drag = speed ** 4 / (2 * GRAVITY ** 2) * df
    return apex_height(speed, drag), by_speed * dspeed + by_drag * ddrag


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def countdown_cues(gaps, stretch, axis=-1, towards="finale", exclusive=False):
    """Cue times from the gaps between the shots.

    towards="finale": time since the opening, gaps are summed from the front.
    towards="opening": time left until the finale, summed from the back.
    exclusive: leave the shot's own gap out (the first, or last, cue is 0).
    stretch: scalar by which the whole show is drawn out.
    """
    return stretch * _running(gaps, axis, towards, exclusive)


def _running(gaps, axis, towards, exclusive):
    if towards == "finale":
        t = jnp.cumsum(gaps, axis)
    elif towards == "opening":
        t = jnp.flip(jnp.cumsum(jnp.flip(gaps, axis), axis), axis)
    else:
        raise ValueError("towards must be 'finale' or 'opening'")
    return t - gaps if exclusive else t


def _cues_fwd(gaps, stretch, axis, towards, exclusive):
    t = _running(gaps, axis, towards, exclusive)
    return stretch * t, (t, stretch)


def _cues_bwd(axis, towards, exclusive, res, g):
    t, stretch = res
    if towards == "finale":
        later = jnp.flip(jnp.cumsum(jnp.flip(g, axis), axis), axis)
        back = later - g if exclusive else later
    else:
        back = jnp.cumsum(g, axis)
    return stretch * back, jnp.sum(g * t)


countdown_cues.defvjp(_cues_fwd, _cues_bwd)


def debris_map(salvo):
    """Debris density on the seats, for a fixed assignment of shells to salvos.

    `salvo` (shells,) gives for each shell the salvo it is fired in; the shells
    of one salvo share the height and so the time of fall.
    """
    salvo = jnp.asarray(salvo)

    def kernel(seats, burst, wind, fall_time, spread):
        centre = burst + wind * fall_time[salvo][:, None]
        off = seats[:, None, :] - centre[None, :, :]
        r2 = (off ** 2).sum(-1)
        return off, r2, jnp.exp(-r2 / (2 * spread ** 2)) / (2 * math.pi * spread ** 2)

    @jax.custom_vjp
    def debris_density(seats, burst, wind, fall_time, spread, casing):
        """seats (s, 2), burst (n, 2), wind (2,), fall_time (salvos,),
        spread (n,), casing (n,) kg  ->  (s,) kg per square metre."""
        return kernel(seats, burst, wind, fall_time, spread)[2] @ casing

    def fwd(seats, burst, wind, fall_time, spread, casing):
        off, r2, dens = kernel(seats, burst, wind, fall_time, spread)
        return dens @ casing, (off, r2, dens, wind, fall_time, spread, casing)

    def bwd(res, g):
        off, r2, dens, wind, fall_time, spread, casing = res
        load = g[:, None] * dens * casing
        pull = load[..., None] * off / (spread ** 2)[None, :, None]
        d_centre = pull.sum(0)
        d_seats = -pull.sum(1)
        d_wind = (d_centre * fall_time[salvo][:, None]).sum(0)
        d_fall = jnp.zeros_like(fall_time).at[salvo].set(d_centre @ wind)
        d_spread = (load * (r2 / spread ** 3 - 2 / spread)).sum(0)
        return d_seats, d_centre, d_wind, d_fall, d_spread, g @ dens

    debris_density.defvjp(fwd, bwd)
    return debris_density


def worst_seat(seats, burst, wind, fall_time, spread, casing):
    """Highest density over the seats when every shell is a salvo of its own."""
    density = debris_map(jnp.arange(burst.shape[0]))
    return density(seats, burst, wind, fall_time, spread, casing).max()
