"""Viscoelastic material models used for fitting rheometer data.

The functions below sit in the inner loop of a least-squares fit over a few
thousand flow and relaxation curves, so the derivatives are written out instead
of being traced.  Units are SI throughout, temperatures are in kelvin.
"""

from __future__ import annotations

from functools import partial
from typing import Dict

import jax
import jax.numpy as jnp

GAS_CONSTANT = 8.314462618
LN10 = 2.302585092994046

Params = Dict[str, jax.Array]


def _sum_to(x: jax.Array, like: jax.Array) -> jax.Array:
    """Sum ``x`` over the axes along which ``like`` was broadcast."""
    like = jnp.asarray(like)
    extra = x.ndim - like.ndim
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(like.shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True).astype(like.dtype)


# --------------------------------------------------------------------------
# steady shear
# --------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def carreau_yasuda(rate: jax.Array, params: Params, a: float = 2.0) -> jax.Array:
    r"""Carreau--Yasuda shear viscosity.

    .. math::
        \eta = \eta_\infty + (\eta_0 - \eta_\infty)
               \left[1 + (\lambda \dot\gamma)^a\right]^{(n - 1) / a}

    Parameters
    ----------
    rate : array, any shape
        Shear rate, non-negative.
    params : dict
        ``eta0``, ``eta_inf``, ``lam`` and ``n``; each a scalar or an array that
        broadcasts against `rate`.
    a : float, optional
        Width of the transition region, ``a >= 1``.  The default of 2 is the plain
        Carreau model.  Not differentiated.

    Returns
    -------
    array
        Viscosity, with the shape of `rate`.
    """
    base = 1.0 + (params["lam"] * rate) ** a
    drop = params["eta0"] - params["eta_inf"]
    return params["eta_inf"] + drop * base ** ((params["n"] - 1.0) / a)


def _carreau_yasuda_fwd(rate, params, a):
    return carreau_yasuda(rate, params, a), (rate, params)


def _carreau_yasuda_bwd(a, res, g):
    rate, p = res
    u = p["lam"] * rate
    base = 1.0 + u**a
    expo = (p["n"] - 1.0) / a
    shape_factor = base**expo
    drop = p["eta0"] - p["eta_inf"]
    d_u = drop * (p["n"] - 1.0) * u ** (a - 1.0) * base ** (expo - 1.0)
    grads = {
        "eta0": g * shape_factor,
        "eta_inf": g * (1.0 - shape_factor),
        "lam": g * d_u * rate,
        "n": g * drop * shape_factor * 0.5 * jnp.log(base),
    }
    return g * d_u * p["lam"], {k: _sum_to(v, p[k]) for k, v in grads.items()}


carreau_yasuda.defvjp(_carreau_yasuda_fwd, _carreau_yasuda_bwd)


# --------------------------------------------------------------------------
# linear viscoelasticity
# --------------------------------------------------------------------------


@jax.custom_jvp
def prony_modulus(t, g_inf, g, tau):
    r"""Relaxation modulus of a generalised Maxwell solid.

    .. math:: G(t) = G_\infty + \sum_m g_m \exp(-t / \tau_m)

    Parameters
    ----------
    t : array, any shape
        Time since the step strain, ``t >= 0``.
    g_inf : scalar
        Equilibrium modulus.
    g, tau : array, shape (M,)
        Mode strengths and relaxation times (``tau > 0``).

    Returns
    -------
    array
        Modulus with the shape of `t`.
    """
    return g_inf + jnp.exp(-t[..., None] / tau) @ g


@prony_modulus.defjvp
def _prony_modulus_jvp(primals, tangents):
    t, g_inf, g, tau = primals
    dt, dg_inf, dg, dtau = tangents
    e = jnp.exp(-t[..., None] / tau)
    rate = g / tau
    out = g_inf + e @ g
    # d(t / tau) = dt / tau - t dtau / tau**2
    tangent = dg_inf + e @ dg - dt * (e @ rate) + t * (e @ (rate * dtau / tau))
    return out, tangent


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def maxwell_stress(strain_rate, moduli, times, dt):
    r"""Stress history of parallel Maxwell elements under a strain-rate history.

    Every mode is advanced exactly over a step on which the strain rate is
    constant,

    .. math::
        s_{m,k} = a_m s_{m,k-1} + G_m \tau_m (1 - a_m) \dot\epsilon_k,
        \qquad a_m = e^{-\Delta t / \tau_m},

    from a relaxed start, and the total stress is the sum over modes.

    Parameters
    ----------
    strain_rate : array, shape (K,) or (K, B)
        One history, or `B` histories side by side.
    moduli, times : array, shape (M,)
        Elastic moduli and relaxation times.
    dt : float
        Step length (static).

    Returns
    -------
    array, same shape as `strain_rate`

    Notes
    -----
    The mode stresses, which are `M` times as large as the output, are not kept
    for the backward pass; they are run forward again there.
    """
    return _mode_stresses(strain_rate, moduli, times, dt).sum(-1)


def _mode_stresses(strain_rate, moduli, times, dt):
    a = jnp.exp(-dt / times)
    gain = moduli * times * (1.0 - a)

    def step(s, rate):
        s = a * s + gain * rate[..., None]
        return s, s

    start = jnp.zeros(strain_rate.shape[1:] + moduli.shape, strain_rate.dtype)
    return jax.lax.scan(step, start, strain_rate)[1]


def _maxwell_stress_fwd(strain_rate, moduli, times, dt):
    return maxwell_stress(strain_rate, moduli, times, dt), (strain_rate, moduli, times)


def _maxwell_stress_bwd(dt, res, g):
    strain_rate, moduli, times = res
    a = jnp.exp(-dt / times)
    s = _mode_stresses(strain_rate, moduli, times, dt)
    previous = jnp.concatenate([jnp.zeros_like(s[:1]), s[:-1]])

    def step(adj, gk):
        adj = gk[..., None] + a * adj
        return adj, adj

    adjoint = jax.lax.scan(step, jnp.zeros_like(s[0]), g, reverse=True)[1]

    da = a * dt / times**2
    axes = tuple(range(adjoint.ndim - 1))
    driven = (adjoint * strain_rate[..., None]).sum(axes)
    carried = (adjoint * previous).sum(axes)
    d_rate = adjoint @ (moduli * times * (1.0 - a))
    d_moduli = driven * times * (1.0 - a)
    d_times = carried * da + driven * moduli * ((1.0 - a) - times * da)
    return d_rate, d_moduli, d_times


maxwell_stress.defvjp(_maxwell_stress_fwd, _maxwell_stress_bwd)


# --------------------------------------------------------------------------
# temperature dependence
# --------------------------------------------------------------------------


@jax.custom_jvp
def time_temperature_shift(temp, t_ref, c1, c2, e_act):
    r"""Decadic logarithm of the time--temperature shift factor.

    At and above the reference temperature the WLF equation is used; in the
    glassy region below it the material follows an Arrhenius law,

    .. math::
        \log_{10} a_T =
        \begin{cases}
          -c_1 (T - T_r) / (c_2 + T - T_r) & T \ge T_r \\
          \dfrac{E_a}{R \ln 10} \left(\dfrac1T - \dfrac1{T_r}\right) & T < T_r
        \end{cases}

    Parameters
    ----------
    temp : array
        Temperatures in kelvin, on either side of `t_ref`.
    t_ref : scalar
        Reference temperature.  It is a fitted quantity.
    c1, c2 : scalar
        WLF constants, positive.
    e_act : scalar
        Activation energy of the glass in J/mol.

    Returns
    -------
    array with the shape of `temp`
    """
    delta = temp - t_ref
    wlf = -c1 * delta / (c2 + jnp.maximum(delta, 0.0))
    glass = e_act / (GAS_CONSTANT * LN10) * (1.0 / temp - 1.0 / t_ref)
    return jnp.where(delta >= 0.0, wlf, glass)


@time_temperature_shift.defjvp
def _time_temperature_shift_jvp(primals, tangents):
    temp, t_ref, c1, c2, e_act = primals
    d_temp, d_ref, d_c1, d_c2, d_e = tangents
    delta = temp - t_ref
    d_delta = d_temp - d_ref
    out = time_temperature_shift(temp, t_ref, c1, c2, e_act)

    denom = c2 + jnp.maximum(delta, 0.0)
    wlf = (
        -c1 * c2 / denom**2 * d_delta
        - delta / denom * d_c1
        + c1 * delta / denom**2 * d_c2
    )
    scale = 1.0 / (GAS_CONSTANT * LN10)
    glass = -e_act * scale / temp**2 * d_delta + scale * (1.0 / temp - 1.0 / t_ref) * d_e
    return out, jnp.where(delta >= 0.0, wlf, glass)


def flow_curve_misfit(params: Params, rates: jax.Array, measured: jax.Array, a: float = 2.0):
    """Mean squared misfit of the log viscosity over one flow curve."""
    model = carreau_yasuda(rates, params, a)
    return jnp.mean((jnp.log(model) - jnp.log(measured)) ** 2)
