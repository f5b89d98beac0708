"""Training objectives of the demand models."""
from functools import partial

import jax
import jax.numpy as jnp


def _deviance(y, log_mu, p):
    base = jnp.where(y > 0, jnp.where(y > 0, y, 1.0) ** (2.0 - p), 0.0)
    base = base / ((1.0 - p) * (2.0 - p))
    model = jnp.exp((2.0 - p) * log_mu) / (2.0 - p) - y * jnp.exp((1.0 - p) * log_mu) / (1.0 - p)
    return 2.0 * (base + model)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _tweedie(log_mu, y, weights, power, reduction):
    return _tweedie_fwd(log_mu, y, weights, power, reduction)[0]


def _tweedie_fwd(log_mu, y, weights, power, reduction):
    per_row = _deviance(y, log_mu, power)
    total = jnp.sum(weights * per_row)
    norm = jnp.sum(weights) if reduction == "mean" else jnp.ones((), total.dtype)
    return total / norm, (log_mu, y, weights, per_row, total / norm, norm)


def _tweedie_bwd(power, reduction, saved, ct):
    log_mu, y, weights, per_row, value, norm = saved
    mu = jnp.exp(log_mu)
    d_fit = 2.0 * (mu ** (1.0 - power) - y * mu ** (-power))
    d_weights = per_row - value if reduction == "mean" else per_row
    return ct * weights * d_fit / norm, jnp.zeros_like(y), ct * d_weights / norm


_tweedie.defvjp(_tweedie_fwd, _tweedie_bwd)


def tweedie_deviance(log_mu, y, weights=None, *, power=1.5, reduction="mean"):
    """Weighted Tweedie deviance with a log link.

    Args:
      log_mu: logarithm of the predicted mean, shape ``[n]``.
      y: observed non-negative amounts, shape ``[n]``; a constant of the objective.
      weights: exposure per row, ones if not given.
      power: variance power, strictly between 1 and 2.
      reduction: ``"mean"`` (divided by the total weight) or ``"sum"``.
    """
    if not 1.0 < power < 2.0:
        raise ValueError("power must lie strictly between 1 and 2")
    weights = jnp.ones_like(log_mu) if weights is None else weights
    return _tweedie(log_mu, jax.lax.stop_gradient(y), weights, power, reduction)


def _pair(x, y, h):
    diff = x[:, None, :] - y[None, :, :]
    sq = jnp.sum(diff**2, axis=-1)
    return jnp.exp(-0.5 * sq / h**2), diff, sq


@jax.custom_gradient
def mmd_rbf(x: "n d", y: "m d", bandwidth: "") -> "":
    """Squared maximum mean discrepancy (V-statistic) of two samples, Gaussian kernel.

    Parameters
    ----------
    x, y : array
        Samples, one per row.
    bandwidth : scalar
        Standard deviation of the kernel.
    """
    n, m = x.shape[0], y.shape[0]
    kxx, dxx, sxx = _pair(x, x, bandwidth)
    kyy, dyy, syy = _pair(y, y, bandwidth)
    kxy, dxy, sxy = _pair(x, y, bandwidth)
    value = kxx.mean() + kyy.mean() - 2.0 * kxy.mean()

    def grad(ct):
        inv = ct / bandwidth**2
        gx = jnp.einsum("ij,ijd->id", kxy, dxy) / m - jnp.einsum("ij,ijd->id", kxx, dxx) / n
        gy = jnp.einsum("ij,ijd->id", kyy, dyy) / m + jnp.einsum("ij,ijd->jd", kxy, dxy) / n
        gh = (kxx * sxx).mean() + (kyy * syy).mean() - 2.0 * (kxy * sxy).mean()
        return 2.0 * inv * gx / n, -2.0 * inv * gy / n, ct * gh / bandwidth**3

    return value, grad
