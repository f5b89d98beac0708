"""Distribution helpers and training objectives."""

import functools
from typing import Optional

import jax
import jax.numpy as jnp
from jax.scipy.special import gammainc, gammaln, xlogy

Array = jax.Array


def _reduce_to(value, shape):
    """Sum ``value`` down to ``shape``."""
    lead = value.ndim - len(shape)
    if lead:
        value = value.sum(tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1)
    return value.sum(axes, keepdims=True) if axes else value


# --------------------------------------------------------------------------
# power law on an interval
# --------------------------------------------------------------------------

_SERIES_CUT = 0.03


def _log_blend(q, s):
    """``log(1 - q + q * exp(s))`` without overflow."""
    large = s > 1.0
    down = jnp.expm1(-jnp.where(large, s, 1.0))
    up = jnp.expm1(jnp.where(large, 1.0, s))
    return jnp.where(large, s + jnp.log1p((1.0 - q) * down), jnp.log1p(q * up))


@jax.custom_jvp
def truncated_power_law_icdf(q, alpha, low, high):
    r"""Quantile function of the power law :math:`p(x) \propto x^\alpha`.

    The support is ``[low, high]`` with ``0 < low < high``.  All arguments
    broadcast against one another, and :math:`\alpha = -1` is allowed.

    :param q: probabilities in ``[0, 1]``
    :param alpha: exponent of the density
    :param low: lower end of the support
    :param high: upper end of the support
    :returns: the quantiles
    """
    span = jnp.log(high / low)
    s = (1.0 + alpha) * span
    flat = s == 0
    s_safe = jnp.where(flat, 1.0, s)
    t = jnp.where(flat, q * span, span * _log_blend(q, s_safe) / s_safe)
    return low * jnp.exp(t)


@truncated_power_law_icdf.defjvp
def _truncated_power_law_icdf_jvp(primals, tangents):
    q, alpha, low, high = primals
    dq, dalpha, dlow, dhigh = tangents
    out = truncated_power_law_icdf(q, alpha, low, high)

    span = jnp.log(high / low)
    s = (1.0 + alpha) * span
    small = jnp.abs(s) < _SERIES_CUT
    s_big = jnp.where(small, 1.0, s)
    size = jnp.abs(s)
    size_safe = jnp.where(size == 0, 1.0, size)

    # everything scaled by exp(-max(s, 0))
    fade = jnp.expm1(-size)
    total = 1.0 + jnp.where(s > 0, 1.0 - q, q) * fade
    slope = q * jnp.where(s > 0, 1.0, jnp.exp(-size)) / total
    rest = (1.0 - q) * jnp.where(s > 0, jnp.exp(-size), 1.0) / total
    dt_dq = span * jnp.where(size == 0, 1.0, -fade / size_safe) / total
    # cumulants of a Bernoulli variable of mean q
    k2 = q * (1.0 - q)
    k3 = k2 * (1.0 - 2.0 * q)
    k4 = k2 * (1.0 - 6.0 * k2)
    k5 = k3 * (1.0 - 12.0 * k2)
    series = k2 / 2 + s * (k3 / 3 + s * (k4 / 8 + s * k5 / 30))
    direct = (s_big * slope - _log_blend(q, s_big)) / s_big**2
    dt_dalpha = span**2 * jnp.where(small, series, direct)

    tangent = dt_dq * dq + dt_dalpha * dalpha + slope * dhigh / high + rest * dlow / low
    return out, out * tangent


# --------------------------------------------------------------------------
# noncentral chi-squared
# --------------------------------------------------------------------------


def _poisson_weights(nonc, num_terms):
    half = 0.5 * jnp.asarray(nonc)[..., None]
    j = jnp.arange(num_terms, dtype=half.dtype)
    return j, jnp.exp(xlogy(j, half) - half - gammaln(j + 1.0))


def _mixture_cdf(x, df, nonc, num_terms):
    j, w = _poisson_weights(nonc, num_terms)
    shape = 0.5 * jnp.asarray(df)[..., None] + j
    return jnp.sum(w * gammainc(shape, 0.5 * jnp.asarray(x)[..., None]), axis=-1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def noncentral_chi2_cdf(x: Array, df: Array, nonc: Array, num_terms: int = 96) -> Array:
    """Cumulative distribution function of the noncentral chi-squared law.

    Args:
      x: nonnegative points.
      df: degrees of freedom, positive.
      nonc: noncentrality, nonnegative.
      num_terms: terms kept of the Poisson mixture; enough for ``nonc`` below
        about ``num_terms``.

    Returns:
      Probabilities, of the common broadcast shape.
    """
    return _mixture_cdf(x, df, nonc, num_terms)


@noncentral_chi2_cdf.defjvp
def _noncentral_chi2_cdf_jvp(num_terms, primals, tangents):
    x, df, nonc = primals
    dx, ddf, dnonc = tangents
    cdf = _mixture_cdf(x, df, nonc, num_terms)
    above = _mixture_cdf(x, df + 2.0, nonc, num_terms)
    density = 0.5 * (cdf - above)

    j, w = _poisson_weights(nonc, num_terms)
    shape = 0.5 * jnp.asarray(df)[..., None] + j
    half = 0.5 * jnp.asarray(x)[..., None]
    full = jnp.broadcast_shapes(shape.shape, half.shape)
    by_shape = jax.lax.igamma_grad_a(jnp.broadcast_to(shape, full), jnp.broadcast_to(half, full))
    by_df = 0.5 * jnp.sum(w * by_shape, axis=-1)
    return cdf, density * dx + by_df * ddf + 0.5 * (above - cdf) * dnonc


# --------------------------------------------------------------------------
# losses
# --------------------------------------------------------------------------


def beta_divergence(target, estimate, weights=None, *, beta=1.0, axis=None):
    """Weighted beta-divergence between two positive arrays.

    ``beta=2`` is half the squared error, ``beta=1`` the generalised
    Kullback-Leibler divergence and ``beta=0`` the Itakura-Saito divergence.

    Parameters
    ----------
    target, estimate : array_like
        Positive arrays that broadcast against each other.
    weights : array_like, optional
        Weights of the entries, broadcast against the two; ones by default.
    beta : float
        Order of the divergence.
    axis : int or tuple of int, optional
        Axes that are summed; all of them by default.

    Returns
    -------
    jax.Array
    """
    if weights is None:
        weights = jnp.ones((), jnp.result_type(target, estimate, 1.0))

    @jax.custom_gradient
    def run(v, e, w):
        if beta == 1:
            each = xlogy(v, v / e) - v + e
        elif beta == 0:
            ratio = v / e
            each = ratio - jnp.log(ratio) - 1.0
        else:
            each = (v**beta + (beta - 1.0) * e**beta - beta * v * e ** (beta - 1.0)) / (beta * (beta - 1.0))
        terms = w * each

        def pull(g):
            if axis is None:
                g_full = jnp.broadcast_to(g, terms.shape)
            else:
                g_full = jnp.broadcast_to(jnp.expand_dims(g, axis), terms.shape)
            if beta == 1:
                by_target = jnp.log(v / e)
            else:
                by_target = (v ** (beta - 1.0) - e ** (beta - 1.0)) / (beta - 1.0)
            by_estimate = e ** (beta - 2.0) * (e - v)
            gw = g_full * w
            return (_reduce_to(gw * by_target, v.shape),
                    _reduce_to(gw * by_estimate, e.shape),
                    _reduce_to(g_full * each, w.shape))

        return jnp.sum(terms, axis=axis), pull

    return run(jnp.asarray(target), jnp.asarray(estimate), jnp.asarray(weights))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def multi_margin_loss(logits, labels, weight: Optional[Array] = None, margin: float = 1.0,
                      p: int = 1, reduction: str = "mean"):
    return _multi_margin_fwd(logits, labels, weight, margin, p, reduction)[0]


def _multi_margin_fwd(logits, labels, weight, margin, p, reduction):
    num_classes = logits.shape[-1]
    own = jnp.take_along_axis(logits, labels[..., None], axis=-1)
    other = 1.0 - jax.nn.one_hot(labels, num_classes, dtype=logits.dtype)
    slack = jnp.maximum(margin - own + logits, 0.0) * other
    rows = jnp.sum(slack**p, axis=-1) / num_classes
    row_weight = jnp.ones_like(rows) if weight is None else weight[labels]
    losses = row_weight * rows
    if reduction == "mean":
        out = jnp.mean(losses)
    elif reduction == "sum":
        out = jnp.sum(losses)
    else:
        out = losses
    return out, (slack, rows, row_weight, labels, weight)


def _multi_margin_bwd(margin, p, reduction, res, g):
    slack, rows, row_weight, labels, weight = res
    num_classes = slack.shape[-1]
    if reduction == "mean":
        g = g / rows.size
    g = jnp.broadcast_to(g, rows.shape)

    step = g[..., None] * (p * slack ** (p - 1) * (slack > 0)) / num_classes
    pulled = jnp.sum(step, axis=-1, keepdims=True)
    hot = jax.nn.one_hot(labels, num_classes, dtype=slack.dtype)
    d_logits = row_weight[..., None] * step - pulled * hot
    if weight is None:
        return d_logits, None, None
    d_weight = jnp.zeros_like(weight).at[labels].add(g * rows)
    return d_logits, None, d_weight


multi_margin_loss.defvjp(_multi_margin_fwd, _multi_margin_bwd)
