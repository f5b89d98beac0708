"""Stable and radiogenic isotope helpers for inverse modelling of fluids and rocks."""
from functools import partial

import jax
import jax.numpy as jnp

LAMBDA_RB87 = 1.3972e-5   # per Myr
LAMBDA_SM147 = 6.54e-6

# 1000 ln(alpha) = A 1e6 / T^2 + B 1e3 / T + C
FRACTIONATION = {
    "calcite-water": (2.78, 0.0, -2.89),
    "quartz-water": (3.38, 0.0, -3.40),
    "vapour-water": (-1.137, 0.4156, 2.0667),
}


@jax.custom_vjp
def endmember_mixing(fractions, conc, ratio):
    total = fractions @ conc
    return (fractions @ (conc * ratio)) / total, total


def _mix_fwd(fractions, conc, ratio):
    mixed, total = endmember_mixing(fractions, conc, ratio)
    return (mixed, total), (fractions, conc, ratio, mixed, total)


def _mix_bwd(res, cts):
    fractions, conc, ratio, mixed, total = res
    g_mixed, g_total = cts
    k, e = conc.shape
    pull = g_mixed / total
    # offset of each endmember from the mixture, [..., K, E]
    offset = ratio - mixed[..., None, :]
    d_fractions = jnp.einsum("...e,ke,...ke->...k", pull, conc, offset)
    d_fractions = d_fractions + g_total @ conc.T
    f2, p2 = fractions.reshape(-1, k), pull.reshape(-1, e)
    d_conc = jnp.einsum("bk,be,bke->ke", f2, p2, offset.reshape(-1, k, e))
    d_ratio = conc * (f2.T @ p2)
    return d_fractions, d_conc, d_ratio


endmember_mixing.defvjp(_mix_fwd, _mix_bwd)


def _ln_alpha(temperature, coeffs):
    a, b, c = coeffs
    return 1e-3 * (a * 1e6 / temperature**2 + b * 1e3 / temperature + c)


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def rayleigh_delta(delta0, remaining, temperature, coeffs, phase="residue"):
    """Per-mil delta after Rayleigh loss to a `remaining` share (0 < remaining <= 1), T in kelvin."""
    la = _ln_alpha(temperature, coeffs)
    power = jnp.expm1(la) * jnp.log(remaining)
    if phase == "instant":
        power = power + la
    return delta0 + (1000.0 + delta0) * jnp.expm1(power)


@rayleigh_delta.defjvp
def _rayleigh_jvp(phase, primals, tangents):
    delta0, remaining, temperature, coeffs = primals
    dd, dr, dt, (da, db, dc) = tangents
    a, b, _ = coeffs
    la = _ln_alpha(temperature, coeffs)
    log_f = jnp.log(remaining)
    power = jnp.expm1(la) * log_f
    per_la = jnp.exp(la) * log_f
    if phase == "instant":
        power, per_la = power + la, per_la + 1.0
    out = delta0 + (1000.0 + delta0) * jnp.expm1(power)
    growth = jnp.exp(power)
    la_dot = 1e-3 * (
        da * 1e6 / temperature**2 + db * 1e3 / temperature + dc
        - (2e6 * a / temperature**3 + 1e3 * b / temperature**2) * dt
    )
    power_dot = per_la * la_dot + jnp.expm1(la) / remaining * dr
    return out, growth * dd + (1000.0 + delta0) * growth * power_dot


def _weighted_line(x, y, w):
    total = w.sum(-1, keepdims=True)
    xc = x - (w * x).sum(-1, keepdims=True) / total
    yc = y - (w * y).sum(-1, keepdims=True) / total
    sxx = (w * xc * xc).sum(-1, keepdims=True)
    slope = (w * xc * yc).sum(-1, keepdims=True) / sxx
    return xc, yc, sxx, slope, total


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def isochron_age(decay_const, parent, daughter, weights, use):
    """Age and initial ratio of an isochron, by weighted least squares.

    The line ``daughter = initial + slope * parent`` is fitted over the last axis;
    the age is ``log1p(slope) / decay_const``.

    Args:
      decay_const: Python float, per unit of time.
      parent: [..., N] parent/stable ratios (e.g. 87Rb/86Sr).
      daughter: [..., N] daughter/stable ratios (e.g. 87Sr/86Sr).
      weights: [..., N] positive weights, commonly 1/sigma**2.
      use: [..., N] boolean. Analyses with False are outliers or padding and
        take no part in the fit; at least two distinct points must remain.

    Returns:
      ``(age, initial)``, each of shape [...].
    """
    w = jnp.where(use, weights, 0.0)
    xc, yc, _, slope, total = _weighted_line(parent, daughter, w)
    initial = (w * (daughter - slope * parent)).sum(-1) / total[..., 0]
    return jnp.log1p(slope[..., 0]) / decay_const, initial


def _isochron_fwd(decay_const, parent, daughter, weights, use):
    w = jnp.where(use, weights, 0.0)
    xc, yc, sxx, slope, total = _weighted_line(parent, daughter, w)
    out = isochron_age(decay_const, parent, daughter, weights, use)
    x_mean = (w * parent).sum(-1, keepdims=True) / total
    return out, (xc, yc, sxx, slope, total, x_mean, weights)


def _isochron_bwd(decay_const, res, cts):
    xc, yc, sxx, slope, total, x_mean, w = res
    g_age, g_init = (c[..., None] for c in cts)
    g_slope = g_age / (decay_const * (1.0 + slope)) - g_init * x_mean
    misfit = yc - slope * xc
    d_daughter = w * (g_slope * xc / sxx + g_init / total)
    d_parent = w * (g_slope * (misfit - slope * xc) / sxx - g_init * slope / total)
    d_weights = misfit * (g_slope * xc / sxx + g_init / total)
    return d_parent, d_daughter, d_weights, None


isochron_age.defvjp(_isochron_fwd, _isochron_bwd)


def rb_sr_age(parent, daughter, sigma, use=None):
    use = jnp.ones(parent.shape, bool) if use is None else use
    return isochron_age(LAMBDA_RB87, parent, daughter, sigma**-2.0, use)


def formation_water(delta_mineral, temperature, mineral="calcite-water"):
    """Delta of the water in equilibrium with a mineral."""
    return delta_mineral - 1000.0 * _ln_alpha(temperature, FRACTIONATION[mineral])
