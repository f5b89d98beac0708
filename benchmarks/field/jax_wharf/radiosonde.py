"""Post-flight processing of balloon soundings.

The hand-written derivatives below feed the variational retrieval in
``profile_misfit``: the profile arrays are long (one sample a second, two hours
of flight) and the taped versions of these operators dominated its memory.
"""

import jax
import jax.numpy as jnp

RD = 287.05  # gas constant of dry air, J kg-1 K-1
G0 = 9.80665  # m s-2
R_EARTH = 6.371e6  # m


def virtual_temperature(t, q):
    """Virtual temperature from temperature (K) and specific humidity (kg/kg)."""
    return t * (1.0 + 0.608 * q)


def _wrap180(deg):
    return (deg + 180.0) % 360.0 - 180.0


# sensor lag
@jax.custom_vjp
def lag_corrected(temps, tau, dt):
    """Undo the first-order lag of the thermistor.

    Parameters
    ----------
    temps : array, shape (S, L)
        Recorded temperature of ``S`` soundings on ``L >= 2`` uniform samples.
    tau : array, shape (S,)
        Time constant of each sonde, seconds.
    dt : float
        Sampling interval, seconds.

    Returns
    -------
    array, shape (S, L)
        ``T + tau * dT/dt`` with centred differences, one-sided at the ends.
    """
    return temps + tau[:, None] * jnp.gradient(temps, axis=-1) / dt


def _lag_fwd(temps, tau, dt):
    slope = jnp.gradient(temps, axis=-1)
    return temps + tau[:, None] * slope / dt, (slope, tau, dt)


def _lag_bwd(saved, g):
    slope, tau, dt = saved
    h = g * tau[:, None] / dt
    first, last = h[:, :1], h[:, -1:]
    mid = 0.5 * h[:, 1:-1]
    out = g
    out = out.at[:, 2:].add(mid)
    out = out.at[:, :-2].add(-mid)
    out = out.at[:, :1].add(-first)
    out = out.at[:, 1:2].add(first)
    out = out.at[:, -1:].add(last)
    out = out.at[:, -2:-1].add(-last)
    d_tau = jnp.sum(g * slope, axis=-1) / dt
    d_dt = -jnp.sum(h * slope) / dt
    return out, d_tau, d_dt


lag_corrected.defvjp(_lag_fwd, _lag_bwd)


# hypsometric integration
@jax.custom_vjp
def geopotential_heights(p, tv, z0):
    """Height of every level by the hypsometric equation.

    Parameters
    ----------
    p : array, shape (..., L)
        Pressure, decreasing along the last axis (any unit).
    tv : array, shape (..., L)
        Virtual temperature of the levels, K.
    z0 : array, shape (...,)
        Height of the first level, m.

    Returns
    -------
    array, shape (..., L)
    """
    return _heights(p, tv, z0)


def _heights(p, tv, z0):
    logp = jnp.log(p)
    mean_tv = 0.5 * (tv[..., 1:] + tv[..., :-1])
    dz = RD / G0 * mean_tv * (logp[..., :-1] - logp[..., 1:])
    z = jnp.cumsum(dz, axis=-1)
    return z0[..., None] + jnp.concatenate([jnp.zeros_like(z[..., :1]), z], axis=-1)


def _heights_fwd(p, tv, z0):
    return _heights(p, tv, z0), (p, tv)


def _heights_bwd(saved, g):
    p, tv = saved
    logp = jnp.log(p)
    # layer k lifts every level above it
    above = jnp.flip(jnp.cumsum(jnp.flip(g[..., 1:], -1), -1), -1) * RD / G0
    pad = [(0, 0)] * (g.ndim - 1)
    lower = jnp.pad(above, pad + [(0, 1)])
    upper = jnp.pad(above, pad + [(1, 0)])
    d_p = (lower - upper) * tv / p
    half = 0.5 * above * (logp[..., :-1] - logp[..., 1:])
    d_tv = jnp.pad(half, pad + [(0, 1)]) + jnp.pad(half, pad + [(1, 0)])
    return d_p, d_tv, jnp.sum(g, axis=-1)


geopotential_heights.defvjp(_heights_fwd, _heights_bwd)


# balloon dynamics and winds
@jax.custom_jvp
def ascent_rate(free_lift, diameter, cd, rho):
    """Terminal vertical speed of a balloon, m/s, negative when it sinks.

    Parameters
    ----------
    free_lift : array
        Buoyancy less total weight, kg; non-zero, below zero after a leak.
    diameter, cd, rho : array or float
        Balloon diameter (m), drag coefficient, air density (kg/m3).
    """
    drag = jnp.pi * rho * cd * diameter**2
    return jnp.sign(free_lift) * jnp.sqrt(8.0 * G0 * jnp.abs(free_lift) / drag)


@ascent_rate.defjvp
def _ascent_jvp(primals, tangents):
    free_lift, diameter, cd, rho = primals
    d_lift, d_diam, d_cd, d_rho = tangents
    w = ascent_rate(*primals)
    rel = 0.5 * (d_lift / free_lift - d_cd / cd - d_rho / rho) - d_diam / diameter
    return w, w * rel


@jax.custom_vjp
def track_winds(lat, lon, t):
    """Eastward and northward wind between successive fixes.

    Parameters
    ----------
    lat, lon : array, shape (..., L)
        Position of the sonde, degrees; the date line may be crossed.
    t : array, shape (..., L)
        Time of the fixes, seconds, increasing.

    Returns
    -------
    u, v : arrays, shape (..., L - 1)
        m/s
    """
    return _track_fwd(lat, lon, t)[0]


def _track_fwd(lat, lon, t):
    step = jnp.diff(t, axis=-1)
    metres = R_EARTH * jnp.pi / 180.0
    mid = jnp.deg2rad(0.5 * (lat[..., 1:] + lat[..., :-1]))
    u = metres * jnp.cos(mid) * _wrap180(jnp.diff(lon, axis=-1)) / step
    v = metres * jnp.diff(lat, axis=-1) / step
    return (u, v), (u, v, mid, step)


def _track_bwd(saved, cts):
    u, v, mid, step = saved
    gu, gv = cts
    metres = R_EARTH * jnp.pi / 180.0
    pad = [(0, 0)] * (gu.ndim - 1)

    def spread(a):
        return jnp.pad(a, pad + [(1, 0)]) - jnp.pad(a, pad + [(0, 1)])

    def shared(a):
        return 0.5 * (jnp.pad(a, pad + [(1, 0)]) + jnp.pad(a, pad + [(0, 1)]))

    d_lon = spread(gu * metres * jnp.cos(mid) / step)
    d_lat = spread(gv * metres / step) + shared(-gu * u * jnp.tan(mid))
    d_t = spread(-(gu * u + gv * v) / step)
    return d_lat, d_lon, d_t


track_winds.defvjp(_track_fwd, _track_bwd)


def profile_misfit(state, obs, z_ref, weight=1.0):
    """Misfit of a batch of soundings to radar heights ``z_ref`` of shape (S, L)."""
    t = lag_corrected(obs["temp"], state["tau"], 1.0)
    tv = virtual_temperature(t, obs["q"])
    z = geopotential_heights(obs["p"], tv, state["z0"])
    return weight * jnp.mean((z - z_ref) ** 2) + jnp.sum((state["tau"] - 4.0) ** 2)
