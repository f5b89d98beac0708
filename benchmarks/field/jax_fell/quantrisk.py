"""Closed forms and small solvers shared by the pricing and risk notebooks.

Derivatives are by hand: they feed calibrations that are run in float32 and
whose greeks get reported.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm


# --- rates ------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(5,))
def bachelier_price(forward, strike, vol, expiry, annuity=1.0, is_call=True):
    """Normal-model price of a European option or swaption.

    Parameters
    ----------
    forward, strike : array
        Forward rate or price and strike; any sign.
    vol : array
        Normal volatility, positive.
    expiry : array
        Time to expiry in years, positive.
    annuity : array, optional
        Discount factor or swap annuity that multiplies the undiscounted price.
    is_call : bool
        Call (payer) if true, put (receiver) otherwise.

    Returns
    -------
    array
        Prices, broadcast over the inputs.
    """
    w = 1.0 if is_call else -1.0
    std = vol * jnp.sqrt(expiry)
    d = (forward - strike) / std
    return annuity * (w * (forward - strike) * norm.cdf(w * d) + std * norm.pdf(d))


@bachelier_price.defjvp
def _bachelier_jvp(is_call, primals, tangents):
    forward, strike, vol, expiry, annuity = primals
    d_forward, d_strike, d_vol, d_expiry, d_annuity = tangents
    w = 1.0 if is_call else -1.0
    root = jnp.sqrt(expiry)
    d = (forward - strike) / (vol * root)
    undiscounted = w * (forward - strike) * norm.cdf(w * d) + vol * root * norm.pdf(d)

    delta = annuity * w * norm.cdf(w * d)
    vega = annuity * root * norm.pdf(d)
    decay = vol * norm.pdf(d) / (2.0 * root)
    tangent = (
        delta * (d_forward - d_strike)
        + vega * d_vol
        + decay * d_expiry
        + undiscounted * d_annuity
    )
    return annuity * undiscounted, tangent


# --- extremes ---------------------------------------------------------------

_SERIES_RADIUS = 0.1
_SERIES_TERMS = 18


def _gev_reduced(z, shape):
    """``log1p(shape z) / shape`` and its partial derivatives.

    Close to shape * z = 0 the quotient is replaced by its power series.
    """
    a = shape * z
    small = jnp.abs(a) < _SERIES_RADIUS
    xi = jnp.where(small, 1.0, shape)
    b = jnp.where(small, 0.5, a)
    inside = 1.0 + b > 0
    b = jnp.where(inside, b, 0.5)
    direct = jnp.log1p(b) / xi
    direct_xi = (z / (1.0 + b) - direct) / xi

    s = jnp.where(small, a, 0.0)
    series = jnp.zeros_like(s)
    series_xi = jnp.zeros_like(s)
    for k in range(_SERIES_TERMS - 1, -1, -1):
        sign = 1.0 if k % 2 == 0 else -1.0
        series = series * s + sign / (k + 1)
        if k > 0:
            series_xi = series_xi * s + sign * k / (k + 1)

    value = jnp.where(small, z * series, direct)
    by_xi = jnp.where(small, z * z * series_xi, direct_xi)
    by_z = 1.0 / jnp.where(1.0 + a > 0, 1.0 + a, 1.0)
    return value, by_z, by_xi


@jax.custom_jvp
def gev_logpdf(x, loc, scale, shape):
    """Log density of the generalised extreme value distribution.

    ``shape`` is xi of the climatological convention (xi > 0 heavy tail, xi = 0
    Gumbel, xi < 0 bounded above) and may have any sign, zero included. Outside
    of the support the result is -inf and has no gradient. Arguments broadcast.
    """
    z = (x - loc) / scale
    y, _, _ = _gev_reduced(z, shape)
    return jnp.where(1.0 + shape * z > 0, -jnp.log(scale) - (1.0 + shape) * y - jnp.exp(-y), -jnp.inf)


@gev_logpdf.defjvp
def _gev_logpdf_jvp(primals, tangents):
    x, loc, scale, shape = primals
    dx, dloc, dscale, dshape = tangents
    z = (x - loc) / scale
    dz = (dx - dloc - z * dscale) / scale
    y, y_z, y_xi = _gev_reduced(z, shape)
    dy = y_z * dz + y_xi * dshape
    tangent = -dscale / scale - dshape * y + (jnp.exp(-y) - 1.0 - shape) * dy
    supported = 1.0 + shape * z > 0
    return gev_logpdf(x, loc, scale, shape), jnp.where(supported, tangent, 0.0)


def fit_annual_maxima(maxima, steps=400, lr=0.02):
    """Maximum likelihood by plain gradient descent; returns (loc, scale, shape)."""
    params = jnp.array([jnp.mean(maxima), jnp.log(jnp.std(maxima)), 0.05])

    def nll(p):
        return -jnp.mean(gev_logpdf(maxima, p[0], jnp.exp(p[1]), p[2]))

    step = jax.jit(lambda p: p - lr * jax.grad(nll)(p))
    for _ in range(steps):
        params = step(params)
    return params[0], jnp.exp(params[1]), params[2]


# --- importance sampling ----------------------------------------------------


@jax.custom_gradient
def self_normalized_estimate(log_weights, values):
    """Self-normalised importance sampling over the last axis.

    Args:
        log_weights: unnormalised log weights, ``(..., S)``.
        values: integrand at the samples, ``(..., S)``.

    Returns:
        Pair of the estimate ``(...,)`` and the effective sample size
        ``1 / sum(w**2)`` ``(...,)`` of the normalised weights. Both are
        differentiable; the second is used as a penalty when proposals are
        adapted.
    """
    log_w = jax.nn.log_softmax(log_weights, axis=-1)
    w = jnp.exp(log_w)
    mean = jnp.sum(w * values, axis=-1)
    log_ess = -jax.nn.logsumexp(2.0 * log_w, axis=-1)
    ess = jnp.exp(log_ess)

    def vjp(cotangents):
        g_mean, g_ess = (c[..., None] for c in cotangents)
        g_values = g_mean * w
        # squared weights, normalised: the softmax of 2 log_w
        w2 = jnp.exp(2.0 * log_w + log_ess[..., None])
        g_log = g_mean * w * (values - mean[..., None])
        g_log = g_log - 2.0 * g_ess * ess[..., None] * w2
        return g_log, g_values

    return (mean, ess), vjp


# --- epidemics --------------------------------------------------------------


def _dominant(matrix, iterations):
    def body(_, v):
        v = matrix @ v
        return v / jnp.sum(v)

    n = matrix.shape[0]
    return jax.lax.fori_loop(0, iterations, body, jnp.full((n,), 1.0 / n, matrix.dtype))


def _next_generation(contact, susceptibility, duration):
    return susceptibility[:, None] * contact * duration[None, :]


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def reproduction_number(contact, susceptibility, duration, iterations=300):
    """Basic reproduction number of an age structured epidemic.

    Args:
        contact: positive ``(A, A)`` matrix; entry ``[i, j]`` is the rate at
            which a case of group ``j`` makes infectious contact with group
            ``i``. Surveys give matrices that are not symmetric.
        susceptibility: positive ``(A,)``.
        duration: positive ``(A,)`` mean infectious period.
        iterations: power iterations.

    Returns:
        Spectral radius of the next-generation matrix
        ``susceptibility[i] * contact[i, j] * duration[j]``.
    """
    k = _next_generation(contact, susceptibility, duration)
    return jnp.sum(k @ _dominant(k, iterations))


def _reproduction_fwd(contact, susceptibility, duration, iterations):
    k = _next_generation(contact, susceptibility, duration)
    right = _dominant(k, iterations)
    left = _dominant(k.T, iterations)
    return jnp.sum(k @ right), (contact, susceptibility, duration, left, right)


def _reproduction_bwd(iterations, res, g):
    contact, susceptibility, duration, left, right = res
    sensitivity = g * jnp.outer(right, left) / jnp.dot(left, right)
    g_contact = susceptibility[:, None] * sensitivity * duration[None, :]
    g_susceptibility = jnp.sum(sensitivity * contact * duration[None, :], axis=1)
    g_duration = jnp.sum(sensitivity * contact * susceptibility[:, None], axis=0)
    return g_contact, g_susceptibility, g_duration


reproduction_number.defvjp(_reproduction_fwd, _reproduction_bwd)


# --- commodities: gas compressibility ---------------------------------------


def _cubic_roots(c2, c1, c0):
    """Real roots of z^3 + c2 z^2 + c1 z + c0, ``(..., 3)``; NaN-free repeats."""
    p = c1 - c2**2 / 3.0
    q = 2.0 * c2**3 / 27.0 - c2 * c1 / 3.0 + c0
    disc = q**2 / 4.0 + p**3 / 27.0
    three = disc < 0

    rad = jnp.sqrt(jnp.where(three, 0.0, disc))
    # the cube root without cancellation, the other one from u v = -p / 3
    u = jnp.cbrt(-q / 2.0 - jnp.where(q >= 0, rad, -rad))
    one = jnp.where(u == 0, 0.0, u - p / (3.0 * jnp.where(u == 0, 1.0, u)))

    m = jnp.sqrt(jnp.where(three, -p / 3.0, 1.0))
    angle = jnp.arccos(jnp.clip(jnp.where(three, -q / (2.0 * m**3), 0.0), -1.0, 1.0)) / 3.0
    turns = 2.0 * jnp.pi / 3.0 * jnp.arange(3)
    trig = 2.0 * m[..., None] * jnp.cos(angle[..., None] - turns)
    roots = jnp.where(three[..., None], trig, one[..., None])
    return roots - c2[..., None] / 3.0


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def peng_robinson_z(a, b, phase="vapor"):
    """Compressibility factor from the Peng-Robinson equation of state.

    ``a`` and ``b`` are the dimensionless attraction and covolume parameters
    (positive, same shape). ``phase`` is ``"vapor"`` for the largest real root
    and ``"liquid"`` for the smallest real root above ``b``; with a single
    root the two coincide. Not to be used exactly at a spinodal, where two
    roots merge.
    """
    roots = _cubic_roots(b - 1.0, a - 3.0 * b**2 - 2.0 * b, b**2 + b**3 - a * b)
    if phase == "vapor":
        return jnp.max(roots, axis=-1)
    if phase == "liquid":
        return jnp.min(jnp.where(roots > b[..., None], roots, jnp.inf), axis=-1)
    raise ValueError(f"unknown phase {phase!r}")


@peng_robinson_z.defjvp
def _peng_robinson_jvp(phase, primals, tangents):
    a, b = primals
    da, db = tangents
    z = peng_robinson_z(a, b, phase)
    f_z = 3.0 * z**2 + 2.0 * (b - 1.0) * z + a - 3.0 * b**2 - 2.0 * b
    f_a = z - b
    f_b = z**2 - (6.0 * b + 2.0) * z + 2.0 * b + 3.0 * b**2 - a
    return z, -(f_a * da + f_b * db) / f_z
