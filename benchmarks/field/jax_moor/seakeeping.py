"""Differentiable building blocks for mooring and sea-keeping studies.

Everything works on batches of load cases and is safe under ``jit`` and
``vmap``.  SI units throughout (m, s, kg, N) unless stated otherwise.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

GRAVITY = 9.80665
_NEWTON_STEPS = 60


def _reduce_to(x, shape):
    """Sum ``x`` down to ``shape`` (adjoint of numpy broadcasting)."""
    lead = x.ndim - len(shape)
    if lead:
        x = x.sum(axis=tuple(range(lead)))
    keep = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=keep, keepdims=True) if keep else x


# ---------------------------------------------------------------------------
# Catenary
# ---------------------------------------------------------------------------


def _solve_half_angle(slack):
    """Root ``u`` of ``sinh(u) / u = slack`` by Newton's method from above."""
    u = jnp.sqrt(6.0 * (slack - 1.0))
    u = jnp.minimum(u, 2.0 + 2.0 * jnp.log(slack + 1.0))

    def body(_, u):
        f = jnp.sinh(u) - slack * u
        return u - f / (jnp.cosh(u) - slack)

    return lax.fori_loop(0, _NEWTON_STEPS, body, u)


@jax.custom_vjp
def catenary_parameter(span: jax.Array, length: jax.Array) -> jax.Array:
    """Catenary parameter ``a = H / w`` of a cable hung between level supports.

    Solves ``2 a sinh(span / (2 a)) = length`` for ``a``.

    Parameters
    ----------
    span : jax.Array
        Horizontal distance of the supports, positive.
    length : jax.Array
        Unstretched length of the cable, ``span < length <= 50 span``.
        Broadcast against `span`.

    Returns
    -------
    jax.Array
        Horizontal tension divided by weight per length, in metres.
    """
    span, length = jnp.broadcast_arrays(span, length)
    return span / (2.0 * _solve_half_angle(length / span))


def _catenary_fwd(span, length):
    a = catenary_parameter(span, length)
    return a, (span, length, a)


def _catenary_bwd(res, g):
    span, length, a = res
    u = span / (2.0 * a)
    # residual F(a, d, L) = 2 a sinh(d / 2a) - L
    f_a = 2.0 * jnp.sinh(u) - 2.0 * u * jnp.cosh(u)
    f_d = jnp.cosh(u)
    lam = g / f_a
    return (
        _reduce_to(-lam * f_d, jnp.shape(span)),
        _reduce_to(lam, jnp.shape(length)),
    )


catenary_parameter.defvjp(_catenary_fwd, _catenary_bwd)


# ---------------------------------------------------------------------------
# Morison loads
# ---------------------------------------------------------------------------


@jax.custom_jvp
def morison_force(u, du, v, dv, diameter, cd, ca, rho):
    """Force per unit length on a moving slender cylinder (relative-velocity form).

    Parameters
    ----------
    u, du : array_like
        Velocity and acceleration of the water, ``(..., nodes)``.
    v, dv : array_like
        Velocity and acceleration of the member.  Zeros for a fixed pile.
    diameter, cd, ca, rho : array_like
        Diameter, drag coefficient, added-mass coefficient, water density.
        Anything that broadcasts against the kinematics.

    Returns
    -------
    jax.Array
        ``rho A ((1 + ca) du - ca dv) + rho D cd |u - v| (u - v) / 2`` with
        ``A = pi D^2 / 4``.
    """
    rel = u - v
    area = 0.25 * jnp.pi * diameter**2
    inertia = rho * area * ((1.0 + ca) * du - ca * dv)
    drag = 0.5 * rho * diameter * cd * jnp.abs(rel) * rel
    return inertia + drag


def _area(d):
    return 0.25 * jnp.pi * d**2


morison_force.defjvps(
    lambda t, ans, u, du, v, dv, d, cd, ca, rho: t * rho * d * cd * jnp.abs(u - v),
    lambda t, ans, u, du, v, dv, d, cd, ca, rho: t * rho * _area(d) * (1.0 + ca),
    lambda t, ans, u, du, v, dv, d, cd, ca, rho: -t * rho * d * cd * jnp.abs(u - v),
    lambda t, ans, u, du, v, dv, d, cd, ca, rho: -t * rho * _area(d) * ca,
    lambda t, ans, u, du, v, dv, d, cd, ca, rho: t
    * rho
    * (
        0.5 * jnp.pi * d * ((1.0 + ca) * du - ca * dv)
        + 0.5 * cd * jnp.abs(u - v) * (u - v)
    ),
    lambda t, ans, u, du, v, dv, d, cd, ca, rho: t * 0.5 * rho * d * jnp.abs(u - v) * (u - v),
    lambda t, ans, u, du, v, dv, d, cd, ca, rho: t * rho * _area(d) * du,
    lambda t, ans, u, du, v, dv, d, cd, ca, rho: t * ans / rho,
)


# ---------------------------------------------------------------------------
# Wave spectrum
# ---------------------------------------------------------------------------


def _jonswap_parts(omega, hs, tp, gamma):
    hs, tp, gamma = hs[..., None], tp[..., None], gamma[..., None]
    wp = 2.0 * jnp.pi / tp
    x = omega / wp
    sigma = jnp.where(x <= 1.0, 0.07, 0.09)
    r = jnp.exp(-0.5 * ((x - 1.0) / sigma) ** 2)
    norm = 1.0 - 0.287 * jnp.log(gamma)
    shape = jnp.exp(-1.25 * x**-4) * x**-5
    return hs, tp, gamma, wp, x, sigma, r, norm, shape


@jax.custom_vjp
def jonswap(omega, hs, tp, gamma):
    """One-sided JONSWAP spectrum in the DNV normalisation.

    Parameters
    ----------
    omega : array, shape (F,)
        Angular frequencies, strictly positive [rad/s].
    hs, tp, gamma : array, shape (...)
        Significant wave height, peak period and peakedness (1 to 7) of every
        sea state, all of the same shape.

    Returns
    -------
    array, shape (..., F)
        Spectral density [m^2 s].
    """
    hs, tp, gamma, wp, x, sigma, r, norm, shape = _jonswap_parts(omega, hs, tp, gamma)
    return norm * (5.0 / 16.0) * hs**2 / wp * shape * gamma**r


def _jonswap_fwd(omega, hs, tp, gamma):
    s = jonswap(omega, hs, tp, gamma)
    return s, (omega, hs, tp, gamma, s)


def _jonswap_bwd(res, g):
    omega, hs, tp, gamma, s = res
    hs, tp, gamma, wp, x, sigma, r, norm, _ = _jonswap_parts(omega, hs, tp, gamma)
    gs = g * s
    # d log S / d log x at fixed wp
    dlog = 5.0 * x**-4 - 5.0 - jnp.log(gamma) * r * x * (x - 1.0) / sigma**2
    g_omega = jnp.sum(gs * dlog / omega, axis=tuple(range(gs.ndim - 1)))
    g_hs = jnp.sum(2.0 * gs / hs, axis=-1)
    # x = omega tp / 2 pi, 1 / wp = tp / 2 pi
    g_tp = jnp.sum(gs * (dlog + 1.0) / tp, axis=-1)
    g_gamma = jnp.sum(gs * (r - 0.287 / norm) / gamma, axis=-1)
    return g_omega, g_hs, g_tp, g_gamma


jonswap.defvjp(_jonswap_fwd, _jonswap_bwd)


def zero_moment(omega, hs, tp, gamma):
    """Variance of the surface elevation by the trapezoidal rule."""
    s = jonswap(omega, hs, tp, gamma)
    return jnp.trapezoid(s, omega, axis=-1)


# ---------------------------------------------------------------------------
# Winch command
# ---------------------------------------------------------------------------


class WinchLimits(NamedTuple):
    rise: jax.Array  # (C,) largest step up per sample, > 0
    fall: jax.Array  # (C,) largest step down per sample, > 0


@jax.custom_vjp
def slew_limit(command, limits: WinchLimits, start):
    """Follow `command` with bounded steps.

    ``y[t] = y[t-1] + clip(command[t] - y[t-1], -fall, rise)``, ``y[-1] = start``.

    command : (B, T, C), limits : per-winch `WinchLimits`, start : (B, C).
    Returns the limited command, (B, T, C).  The backward pass needs only which
    branch was taken at every sample, kept as int8.
    """
    return _slew_scan(command, limits, start)[0]


def _slew_scan(command, limits, start):
    def step(y, c):
        d = c - y
        branch = (d > limits.rise).astype(jnp.int8) - (d < -limits.fall).astype(jnp.int8)
        y = jnp.where(branch == 1, y + limits.rise, jnp.where(branch == -1, y - limits.fall, c))
        return y, (y, branch)

    _, (ys, branch) = lax.scan(step, start, jnp.moveaxis(command, 1, 0))
    return jnp.moveaxis(ys, 0, 1), branch


def _slew_fwd(command, limits, start):
    return _slew_scan(command, limits, start)


def _slew_bwd(branch, g):
    def step(carry, inp):
        gy, b = inp
        gy = gy + carry
        free = jnp.where(b == 0, gy, 0.0)
        up = jnp.where(b == 1, gy, 0.0)
        down = jnp.where(b == -1, gy, 0.0)
        return up + down, (free, up.sum(axis=0), down.sum(axis=0))

    g_t = jnp.moveaxis(g, 1, 0)
    g_start, (g_cmd, up, down) = lax.scan(
        step, jnp.zeros_like(g_t[0]), (g_t, branch), reverse=True
    )
    return jnp.moveaxis(g_cmd, 0, 1), WinchLimits(up.sum(0), -down.sum(0)), g_start


slew_limit.defvjp(_slew_fwd, _slew_bwd)


@partial(jax.jit, static_argnames="steps")
def tune_line_length(span, target_parameter, length0, steps: int = 50, lr: float = 1e-2):
    """Gradient descent on cable length so that the catenary meets a target."""

    def loss(length):
        return jnp.mean((catenary_parameter(span, length) / target_parameter - 1.0) ** 2)

    def step(length, _):
        value, grad = jax.value_and_grad(loss)(length)
        return jnp.maximum(length - lr * grad, 1.0001 * span), value

    return lax.scan(step, length0, None, length=steps)
