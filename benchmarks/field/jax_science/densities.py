"""Log densities, divergences and order statistics."""
import functools
import math

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def masked_logsumexp(x, mask, axis=-1, keepdims=False):
    """``log(sum(exp(x)))`` along ``axis`` over the entries where ``mask`` is True.

    Args:
        x: array, entries finite or ``-inf``.
        mask: boolean array, broadcastable to ``x``.
        axis: int, the axis to reduce.
        keepdims: keep the reduced axis with length one.

    Slices without any selected entry give ``-inf``.
    """
    xm = jnp.where(mask, x, -jnp.inf)
    m = jnp.max(xm, axis=axis, keepdims=True)
    m = jnp.where(jnp.isfinite(m), m, 0.0)
    out = jnp.log(jnp.sum(jnp.exp(xm - m), axis=axis, keepdims=True)) + m
    return out if keepdims else jnp.squeeze(out, axis)


def _mlse_fwd(x, mask, axis, keepdims):
    out = masked_logsumexp(x, mask, axis, True)
    return (out if keepdims else jnp.squeeze(out, axis)), (x, mask, out)


def _mlse_bwd(axis, keepdims, res, g):
    x, mask, lse = res
    if not keepdims:
        g = jnp.expand_dims(g, axis)
    lse = jnp.where(jnp.isfinite(lse), lse, 0.0)
    p = jnp.exp(jnp.where(mask, x, -jnp.inf) - lse)
    return g * p, None


masked_logsumexp.defvjp(_mlse_fwd, _mlse_bwd)


@jax.custom_jvp
def student_t_logpdf(x, df, loc, scale):
    """Log density of the location-scale Student t distribution.

    All four arguments broadcast against each other; ``df`` (up to about a hundred; use a normal
    beyond that) and ``scale`` are positive.
    """
    z = (x - loc) / scale
    return (gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * jnp.log(df * math.pi)
            - jnp.log(scale) - 0.5 * (df + 1.0) * jnp.log1p(z * z / df))


@student_t_logpdf.defjvp
def _student_t_jvp(primals, tangents):
    x, df, loc, scale = primals
    dx, ddf, dloc, dscale = tangents
    z = (x - loc) / scale
    zz = z * z
    score = (df + 1.0) * z / (df + zz)
    d_df = 0.5 * (digamma(0.5 * (df + 1.0)) - digamma(0.5 * df) - 1.0 / df - jnp.log1p(zz / df)
                  + (df + 1.0) / df * (zz / (df + zz)))
    out = student_t_logpdf(x, df, loc, scale)
    tangent = ((dloc - dx) * score / scale
               + dscale * (z * score - 1.0) / scale
               + ddf * d_df)
    return out, tangent


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def diag_gaussian_kl(mu_q, logvar_q, mu_p, logvar_p, reduction="sum"):
    r"""KL(q || p) of two diagonal Gaussians.

    All arrays are (batch, dim).  The divergence is summed over ``dim``; over the batch it is
    kept (``"none"``), summed (``"sum"``) or averaged (``"mean"``).
    """
    kl = 0.5 * jnp.sum(
        logvar_p - logvar_q - 1.0
        + jnp.exp(logvar_q - logvar_p)
        + (mu_q - mu_p) ** 2 * jnp.exp(-logvar_p),
        axis=-1,
    )
    if reduction == "none":
        return kl
    return kl.mean() if reduction == "mean" else kl.sum()


def _kl_fwd(mu_q, logvar_q, mu_p, logvar_p, reduction):
    out = diag_gaussian_kl(mu_q, logvar_q, mu_p, logvar_p, reduction)
    return out, (mu_q, logvar_q, mu_p, logvar_p)


def _kl_bwd(reduction, res, g):
    mu_q, logvar_q, mu_p, logvar_p = res
    g = g[..., None]  # (batch, 1), or (1,) once reduced
    prec = jnp.exp(-logvar_p)
    ratio = jnp.exp(logvar_q - logvar_p)
    diff = mu_q - mu_p
    d_mu = g * diff * prec
    return (
        d_mu,
        0.5 * g * (ratio - 1.0),
        -d_mu,
        0.5 * g * (1.0 - ratio - diff**2 * prec),
    )


diag_gaussian_kl.defvjp(_kl_fwd, _kl_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def sample_quantile(x, q, axis=-1):
    """Empirical quantile with linear interpolation between order statistics.

    Parameters
    ----------
    x : array
    q : float in [0, 1]
    axis : int
        Axis holding the samples; removed from the result.
    """
    return _quantile_fwd(x, q, axis)[0]


def _rank_weights(n, q):
    pos = q * (n - 1)
    lo = min(int(math.floor(pos)), n - 1)
    hi = min(lo + 1, n - 1)
    return lo, hi, pos - lo


def _quantile_fwd(x, q, axis):
    order = jnp.argsort(x, axis=axis)
    xs = jnp.take_along_axis(x, order, axis=axis)
    lo, hi, t = _rank_weights(x.shape[axis], q)
    out = (1 - t) * jnp.take(xs, lo, axis=axis) + t * jnp.take(xs, hi, axis=axis)
    return out, order


def _quantile_bwd(q, axis, order, g):
    n = order.shape[axis]
    lo, hi, t = _rank_weights(n, q)
    weights = jnp.zeros(n, g.dtype).at[lo].add(1 - t).at[hi].add(t)
    shape = [1] * order.ndim
    shape[axis] = n
    g_sorted = jnp.expand_dims(g, axis) * weights.reshape(shape)
    return (jnp.take_along_axis(g_sorted, order, axis=axis),)


sample_quantile.defvjp(_quantile_fwd, _quantile_bwd)


def elbo(log_lik, mask, enc, prior, beta=1.0):
    """Importance-weighted bound minus a KL term; ``log_lik`` and ``mask`` are (samples, batch)."""
    count = jnp.maximum(mask.sum(0), 1)
    iw = masked_logsumexp(log_lik, mask, 0) - jnp.log(count)
    return iw.sum() - beta * diag_gaussian_kl(*enc, *prior)
