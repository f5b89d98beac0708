"""Log-densities used by the inference notebooks.

All densities carry hand-written derivative rules: the automatic ones keep
too many intermediates alive when the likelihood is scanned over long chains.
"""
import functools
import math

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import digamma, gammaln, i0e, i1e

LOG_2PI = math.log(2.0 * math.pi)


def _unbroadcast(grad, like):
    """Sum ``grad`` down to the shape of ``like``."""
    shape = jnp.shape(like)
    extra = grad.ndim - len(shape)
    if extra:
        grad = grad.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return grad.sum(axis=axes, keepdims=True) if axes else grad


# --------------------------------------------------------------------------
# multivariate normal
# --------------------------------------------------------------------------
@jax.custom_vjp
def mvn_logpdf(x, mean, chol):
    """Multivariate normal log-density, parametrised by a Cholesky factor.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Observations.
    mean : ndarray, shape (d,)
        Location shared by all observations.
    chol : ndarray, shape (d, d)
        Lower-triangular factor with a positive diagonal; the upper triangle
        is not read.

    Returns
    -------
    ndarray, shape (n,)
    """
    return _mvn_fwd(x, mean, chol)[0]


def _mvn_fwd(x, mean, chol):
    d = x.shape[-1]
    z = solve_triangular(chol, (x - mean).T, lower=True)
    logdet = jnp.sum(jnp.log(jnp.diagonal(chol)))
    out = -0.5 * jnp.sum(z * z, axis=0) - logdet - 0.5 * d * LOG_2PI
    return out, (z, chol)


def _mvn_bwd(res, g):
    z, chol = res
    w = solve_triangular(chol, z, lower=True, trans=1)
    gx = -(w * g).T
    gmean = -gx.sum(axis=0)
    gchol = jnp.tril((w * g) @ z.T) - jnp.diag(g.sum() / jnp.diagonal(chol))
    return gx, gmean, gchol


mvn_logpdf.defvjp(_mvn_fwd, _mvn_bwd)


# --------------------------------------------------------------------------
# Dirichlet
# --------------------------------------------------------------------------
@jax.custom_vjp
def dirichlet_logpdf(x, alpha):
    """Dirichlet log-density.

    Parameters
    ----------
    x : ndarray, shape (..., k)
        Points of the open simplex.
    alpha : ndarray, shape (k,)
        Concentration, shared by the leading dimensions of ``x``.

    Returns
    -------
    ndarray, shape (...)
    """
    norm = gammaln(alpha.sum()) - gammaln(alpha).sum()
    return norm + jnp.sum((alpha - 1.0) * jnp.log(x), axis=-1)


def _dirichlet_fwd(x, alpha):
    return dirichlet_logpdf(x, alpha), (x, alpha)


def _dirichlet_bwd(res, g):
    x, alpha = res
    gx = g[..., None] * (alpha - 1.0) / x
    score = digamma(alpha.sum()) - digamma(alpha) + jnp.log(x)
    galpha = (g[..., None] * score).reshape(-1, alpha.shape[0]).mean(axis=0)
    return gx, galpha


dirichlet_logpdf.defvjp(_dirichlet_fwd, _dirichlet_bwd)


# --------------------------------------------------------------------------
# von Mises
# --------------------------------------------------------------------------
@jax.custom_jvp
def von_mises_logpdf(x, mu, kappa):
    """Log-density of the von Mises distribution (broadcasts over its arguments)."""
    return kappa * (jnp.cos(x - mu) - 1.0) - LOG_2PI - jnp.log(i0e(kappa))


von_mises_logpdf.defjvps(
    lambda t, ans, x, mu, kappa: -kappa * jnp.sin(x - mu) * t,
    lambda t, ans, x, mu, kappa: kappa * jnp.sin(x - mu) * t,
    lambda t, ans, x, mu, kappa: (jnp.cos(x - mu) - i1e(kappa) / i0e(kappa)) * t,
)


# --------------------------------------------------------------------------
# negative binomial
# --------------------------------------------------------------------------
@jax.custom_vjp
def neg_binomial_logpmf(counts, mean, concentration):
    """Negative binomial log-pmf in the mean/concentration form.

    Args:
        counts: integer counts, ``(cells, genes)``.
        mean: positive means, ``(cells, genes)``.
        concentration: positive inverse dispersions, ``(genes,)`` or a scalar.

    Returns:
        Log-probabilities, ``(cells, genes)``.
    """
    r = concentration
    k = counts.astype(mean.dtype)
    total = jnp.log(r + mean)
    return (gammaln(k + r) - gammaln(r) - gammaln(k + 1.0)
            + r * (jnp.log(r) - total) + k * (jnp.log(mean) - total))


def _nb_fwd(counts, mean, concentration):
    return neg_binomial_logpmf(counts, mean, concentration), (counts, mean, concentration)


def _nb_bwd(res, g):
    counts, mean, r = res
    k = counts.astype(mean.dtype)
    denom = r + mean
    gmean = g * (k / mean - (k + r) / denom)
    gr = g * (digamma(k + r) - digamma(r) - jnp.log1p(mean / r) + (mean - k) / denom)
    return None, _unbroadcast(gmean, mean), _unbroadcast(gr, r)


neg_binomial_logpmf.defvjp(_nb_fwd, _nb_bwd)


# --------------------------------------------------------------------------
# Gaussian mixture on the line
# --------------------------------------------------------------------------
def _component_logpdf(params, x):
    z = (x[:, None] - params["loc"]) * jnp.exp(-params["log_scale"])
    logw = jax.nn.log_softmax(params["logits"])
    return logw - params["log_scale"] - 0.5 * (z * z + LOG_2PI), z


@jax.custom_vjp
def mixture_logpdf(params, x):
    """params: dict of (K,) arrays 'logits', 'loc', 'log_scale'; x: (N,) -> (N,)"""
    return jax.nn.logsumexp(_component_logpdf(params, x)[0], axis=1)


def _mixture_fwd(params, x):
    return mixture_logpdf(params, x), (params, x)


def _mixture_bwd(res, g):
    params, x = res
    logp, z = _component_logpdf(params, x)
    resp = jax.nn.softmax(logp, axis=1) * g[:, None]
    inv = jnp.exp(-params["log_scale"])
    weights = jax.nn.softmax(params["logits"])
    grads = {
        "logits": resp.sum(0) - weights * g.sum(),
        "loc": (resp * z).sum(0) * inv,
        "log_scale": (resp * (z * z - 1.0)).sum(0),
    }
    return grads, -(resp * z * inv).sum(1)


mixture_logpdf.defvjp(_mixture_fwd, _mixture_bwd)


# --------------------------------------------------------------------------
# robust regression
# --------------------------------------------------------------------------
def _reduce(values, mask, reduction):
    values = jnp.where(mask, values, 0.0)
    if reduction == "sum":
        return values.sum()
    if reduction == "mean":
        return values.sum() / jnp.maximum(mask.sum(), 1)
    return values


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def student_t_nll(pred, target, log_scale, mask, df=4.0, reduction="mean"):
    """Student-t negative log-likelihood of regression residuals.

    Args:
        pred: predictions, ``(batch, time)``.
        target: observations, ``(batch, time)``.
        log_scale: scalar log of the noise scale.
        mask: boolean ``(batch, time)``; False marks missing observations.
        df: degrees of freedom.
        reduction: "mean" (over the observed entries), "sum" or "none".
    """
    z = (pred - target) * jnp.exp(-log_scale)
    const = math.lgamma(df / 2) - math.lgamma((df + 1) / 2) + 0.5 * math.log(df * math.pi)
    nll = const + log_scale + 0.5 * (df + 1) * jnp.log1p(z * z / df)
    return _reduce(nll, mask, reduction)


def _student_fwd(pred, target, log_scale, mask, df, reduction):
    return student_t_nll(pred, target, log_scale, mask, df, reduction), (pred, target, log_scale, mask)


def _student_bwd(df, reduction, res, g):
    pred, target, log_scale, mask = res
    inv = jnp.exp(-log_scale)
    z = (pred - target) * inv
    if reduction == "mean":
        g = g / z.size
    g = jnp.where(mask, g, 0.0)
    dz = (df + 1) * z / (df + z * z)
    gpred = g * dz * inv
    gscale = jnp.sum(g * (1.0 - dz * z))
    return gpred, -gpred, gscale, None


student_t_nll.defvjp(_student_fwd, _student_bwd)
