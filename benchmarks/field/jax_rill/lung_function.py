"""Spirometry and multiple-breath washout, differentiable for hierarchical fitting."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Reference(NamedTuple):
    power: jnp.ndarray  # L, skewness of the reference population, any sign, zero allowed
    median: jnp.ndarray  # M
    spread: jnp.ndarray  # S, coefficient of variation


class WashoutParams(NamedTuple):
    frc: jnp.ndarray  # (B,) litres
    dead_space: jnp.ndarray  # (B,) litres


def reference_from_age(coef, height, age):
    """GAMLSS-like look-up: everything log-linear in height and age."""
    lh, la = jnp.log(height), jnp.log(age)
    median = jnp.exp(coef["a0"] + coef["a1"] * lh + coef["a2"] * la)
    spread = jnp.exp(coef["p0"] + coef["p1"] * la)
    return Reference(coef["q0"] + coef["q1"] * la, median, spread)


# ---- z-scores -------------------------------------------------------------


def _phi(x):
    """expm1(x) / x"""
    tiny = jnp.abs(x) < 1e-6
    safe = jnp.where(tiny, 1.0, x)
    return jnp.where(tiny, 1.0 + 0.5 * x, jnp.expm1(safe) / safe)


def _phi_slope(x):
    small = jnp.abs(x) < 0.02
    safe = jnp.where(small, 1.0, x)
    far = (jnp.exp(safe) - jnp.expm1(safe) / safe) / safe
    near = 1 / 2 + x * (1 / 3 + x * (1 / 8 + x * (1 / 30 + x * (1 / 144 + x / 840))))
    return jnp.where(small, near, far)


@jax.custom_jvp
def lms_zscore(y, power, median, spread):
    """Box-Cox z-score of a measurement against an LMS reference; all broadcast."""
    q = jnp.log(y / median)
    return q * _phi(power * q) / spread


@lms_zscore.defjvp
def _lms_jvp(primals, tangents):
    y, power, median, spread = primals
    dy, dpower, dmedian, dspread = tangents
    q = jnp.log(y / median)
    x = power * q
    z = q * _phi(x) / spread
    dq = dy / y - dmedian / median
    dz = (jnp.exp(x) * dq + q * q * _phi_slope(x) * dpower - z * dspread) / spread
    return z, dz


# ---- forced expiration ------------------------------------------------------


def _frames(lengths, total):
    return jnp.arange(total) < lengths[:, None]


@jax.custom_vjp
def expired_volume(flow, dt, lengths):
    """Running trapezoidal volume.

    flow     (B, T)  litres per second, padded at the end
    dt       (B, T)  time since the previous frame (turbine heads do not tick evenly);
                     the first column is not used
    lengths  (B,)    frames recorded; the volume stays put after the last one
    """
    step = 0.5 * dt[:, 1:] * (flow[:, 1:] + flow[:, :-1])
    step = jnp.where(_frames(lengths, flow.shape[1])[:, 1:], step, 0.0)
    return jnp.pad(jnp.cumsum(step, axis=1), ((0, 0), (1, 0)))


def _volume_fwd(flow, dt, lengths):
    return expired_volume(flow, dt, lengths), (flow, dt, lengths)


def _volume_bwd(res, g):
    flow, dt, lengths = res
    keep = _frames(lengths, flow.shape[1])
    tail = jnp.flip(jnp.cumsum(jnp.flip(g, 1), axis=1), 1)
    tail = jnp.where(keep, tail, 0.0).at[:, 0].set(0.0)
    ahead = jnp.pad(tail[:, 1:], ((0, 0), (0, 1)))
    g_flow = 0.5 * dt * (tail + ahead)
    pair = jnp.pad(flow[:, 1:] + flow[:, :-1], ((0, 0), (1, 0)))
    return g_flow, 0.5 * pair * tail, None


expired_volume.defvjp(_volume_fwd, _volume_bwd)


def fev(flow, dt, lengths, at=1.0):
    """Volume at `at` seconds."""
    t = jnp.cumsum(dt.at[:, 0].set(0.0), axis=1)
    v = expired_volume(flow, dt, lengths)
    return jax.vmap(lambda tt, vv: jnp.interp(at, tt, vv))(t, v)


# ---- nitrogen washout -------------------------------------------------------


@jax.custom_vjp
def washout_curve(tidal, params, start):
    """End-tidal tracer concentration after each breath.

    tidal   (B, N)  breath sizes; a breath smaller than the dead space washes nothing
    params  WashoutParams
    start   scalar, concentration before the first breath, positive
    """
    frc, dead = params.frc[:, None], params.dead_space[:, None]
    alveolar = jnp.maximum(tidal - dead, 0.0)
    return start * jnp.exp(-jnp.cumsum(jnp.log1p(alveolar / frc), axis=1))


def _washout_fwd(tidal, params, start):
    curve = washout_curve(tidal, params, start)
    return curve, (tidal, params, start, curve)


def _washout_bwd(res, g):
    tidal, params, start, curve = res
    frc, dead = params.frc[:, None], params.dead_space[:, None]
    alveolar = jnp.maximum(tidal - dead, 0.0)
    gc = g * curve
    later = jnp.sum(gc, axis=1, keepdims=True) - jnp.cumsum(gc, axis=1) + gc
    rate = later / (frc + alveolar)
    g_tidal = jnp.where(tidal > dead, -rate, 0.0)
    g_frc = jnp.sum(rate * alveolar, axis=1) / params.frc
    return g_tidal, WashoutParams(g_frc, -g_tidal.sum(axis=1)), jnp.sum(gc) / start


washout_curve.defvjp(_washout_fwd, _washout_bwd)


def clearance_index(tidal, params, start=0.78, target=1.0 / 40.0, softness=0.05):
    curve = washout_curve(tidal, params, start) / start
    pending = jax.nn.sigmoid((jnp.log(curve) - jnp.log(target)) / softness)
    return jnp.sum(pending * tidal, axis=1) / params.frc
