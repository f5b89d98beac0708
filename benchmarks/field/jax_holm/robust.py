from functools import partial

import jax
import jax.numpy as jnp


@jax.custom_vjp
def tukey_biweight(r, c):
    u2 = jnp.minimum((r / c) ** 2, 1.0)
    return c**2 / 6.0 * (1.0 - (1.0 - u2) ** 3)


def _tukey_fwd(r, c):
    return tukey_biweight(r, c), (r, c)


def _tukey_bwd(res, g):
    r, c = res
    u2 = (r / c) ** 2
    w = jnp.where(u2 < 1.0, (1.0 - u2) ** 2, 0.0)
    dr = g * w * r
    dc = jnp.where(u2 < 1.0, c / 3.0 * (1.0 - (1.0 - u2) ** 3) - w * r**2 / c, 0.0)
    return dr, jnp.sum(g * dc)


tukey_biweight.defvjp(_tukey_fwd, _tukey_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def trimmed_mean(x, k=1, axis=-1):
    n = x.shape[axis]
    s = jnp.sort(x, axis=axis)
    return jax.lax.slice_in_dim(s, k, n - k, axis=axis % x.ndim).mean(axis)


def _trimmed_fwd(x, k, axis):
    order = jnp.argsort(x, axis=axis)
    rank = jnp.argsort(order, axis=axis)
    n = x.shape[axis]
    return trimmed_mean(x, k, axis), (rank >= k) & (rank < n - k)


def _trimmed_bwd(k, axis, kept, g):
    n = kept.shape[axis] - 2 * k
    return (jnp.where(kept, jnp.expand_dims(g, axis) / n, 0),)


trimmed_mean.defvjp(_trimmed_fwd, _trimmed_bwd)


@jax.custom_vjp
def theil_index(income, weight):
    total = jnp.sum(weight)
    share = income / (jnp.sum(weight * income) / total)
    return jnp.sum(weight * share * jnp.log(share)) / total


def _theil_fwd(income, weight):
    total = jnp.sum(weight)
    mean = jnp.sum(weight * income) / total
    share = income / mean
    t = jnp.sum(weight * share * jnp.log(share)) / total
    return t, (share, mean, weight, total, t)


def _theil_bwd(res, g):
    share, mean, weight, total, t = res
    excess = jnp.log(share) - t
    d_income = g * weight * excess / (total * mean)
    d_weight = g * share * excess / total
    return d_income, d_weight


theil_index.defvjp(_theil_fwd, _theil_bwd)


class MaskedGeometricMean:
    def __init__(self, floor=None):
        self.floor = floor

    @staticmethod
    @jax.custom_vjp
    def reduce(x, mask):
        # entries outside the mask may hold anything
        logs = jnp.where(mask, jnp.log(jnp.where(mask, x, 1.0)), 0.0)
        n = jnp.maximum(mask.sum(-1), 1)
        return jnp.exp(logs.sum(-1) / n)

    def __call__(self, x, mask):
        if self.floor is not None:
            x = jnp.maximum(x, self.floor)
        return self.reduce(x, mask)


def _geo_fwd(x, mask):
    y = MaskedGeometricMean.reduce(x, mask)
    return y, (x, mask, y)


def _geo_bwd(res, g):
    x, mask, y = res
    n = jnp.maximum(mask.sum(-1), 1)
    safe = jnp.where(mask, x, 1.0)
    return jnp.where(mask, (g * y / n)[..., None] / safe, 0.0), None


MaskedGeometricMean.reduce.defvjp(_geo_fwd, _geo_bwd)


def robust_fit_loss(params, feats, y):
    r = y - feats @ params["coef"]
    return tukey_biweight(r, jnp.exp(params["log_c"])).mean()
