"""Long-term and event water balance of gauged basins."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

LAND_COVER = ("conifer", "broadleaf", "crop", "grass", "bare")
MM_PER_M = 1000.0


def _int_zero(x):
    return np.zeros(jnp.shape(x), dtype=jax.dtypes.float0)


def _norm_ratio(precip, pet, omega):
    big = jnp.maximum(precip, pet)
    r = jnp.minimum(precip, pet) / big
    rw = r**omega
    return big * (1.0 + rw) ** (1.0 / omega), r, rw


@jax.custom_vjp
def fu_evaporation(precip, pet, omega):
    """Actual evaporation by Fu's form of the Budyko curve.

        E = P + PET - (P^w + PET^w)^(1/w)

    Args:
      precip: (B, T) precipitation, positive.
      pet: (B, T) potential evaporation, non-negative.
      omega: (B,) landscape parameter of each basin, > 1.
    Returns:
      (B, T) evaporation in the unit of ``precip``.
    """
    norm, _, _ = _norm_ratio(precip, pet, omega[:, None])
    return precip + pet - norm


def _fu_fwd(precip, pet, omega):
    norm, r, rw = _norm_ratio(precip, pet, omega[:, None])
    return precip + pet - norm, (precip, pet, omega, norm, r, rw)


def _fu_bwd(res, g):
    precip, pet, omega, norm, r, rw = res
    w = omega[:, None]
    d_precip = g * (1.0 - (precip / norm) ** (w - 1.0))
    d_pet = g * (1.0 - (pet / norm) ** (w - 1.0))
    dlog_norm = xlogy(rw, r) / (w * (1.0 + rw)) - jnp.log1p(rw) / w**2
    return d_precip, d_pet, -(g * norm * dlog_norm).sum(axis=1)


fu_evaporation.defvjp(_fu_fwd, _fu_bwd)


@jax.custom_vjp
def canopy_interception(rain, cover, capacity, wet_loss):
    """Merriam interception per event: ``S (1 - exp(-P / S)) + K P`` with ``S = capacity[cover]``.

    rain (N,), cover (N,) int codes into LAND_COVER, capacity (C,) mm, wet_loss scalar.
    """
    s = capacity[cover]
    return s * -jnp.expm1(-rain / s) + wet_loss * rain


def _interception_fwd(rain, cover, capacity, wet_loss):
    s = capacity[cover]
    e = jnp.exp(-rain / s)
    return s * (1.0 - e) + wet_loss * rain, (rain, cover, capacity, s, e, wet_loss)


def _interception_bwd(res, g):
    rain, cover, capacity, s, e, wet_loss = res
    d_rain = g * (e + wet_loss)
    d_s = g * (1.0 - e - e * rain / s)
    d_capacity = jnp.zeros_like(capacity).at[cover].set(d_s)
    return d_rain, _int_zero(cover), d_capacity, jnp.sum(g * rain)


canopy_interception.defvjp(_interception_fwd, _interception_bwd)


def make_recession(dt=1.0, floor=1e-6):
    """Non-linear reservoir S' = R - k S^b stepped with explicit Euler.

    ``drain(store0, recharge, k, b)``: store0, k, b share a shape, recharge has time in front.
    """

    def _step(store, recharge, k, b):
        q = k * store**b
        return jnp.maximum(store + dt * (recharge - q), floor), q

    @jax.custom_vjp
    def drain(store0, recharge, k, b):
        def body(s, r):
            return _step(s, r, k, b)
        _, flow = jax.lax.scan(body, store0, recharge)
        return flow

    def fwd(store0, recharge, k, b):
        def body(s, r):
            s_next, q = _step(s, r, k, b)
            return s_next, (s_next, q)
        _, (stores, flow) = jax.lax.scan(body, store0, recharge)
        return flow, (stores, flow, k, b)

    def bwd(res, g):
        stores, flow, k, b = res

        def body(carry, inp):
            ds, dk, db = carry
            s, q, gq = inp
            ds = jnp.where(s > floor, ds, 0.0)
            dq = gq - dt * ds
            dr = dt * ds
            dk = dk + dq * s**b
            db = db + dq * k * s**b * jnp.log(s)
            ds = ds + dq * k * b * s ** (b - 1.0)
            return (ds, dk, db), dr

        zero = jnp.zeros_like(stores[0])
        init = (zero, jnp.zeros_like(k), jnp.zeros_like(b))
        (ds0, dk, db), dr = jax.lax.scan(body, init, (stores, flow, g), reverse=True)
        return ds0, dr, dk, db

    drain.defvjp(fwd, bwd)
    return drain


daily_recession = make_recession(dt=1.0)


@functools.partial(jax.jit, static_argnames="axis")
def runoff_ratio(flow, precip, axis=-1):
    return flow.sum(axis) / precip.sum(axis)
