import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Gaussian(NamedTuple):
    mean: jnp.ndarray
    log_var: jnp.ndarray


def _match(g, shape):
    # sum g down to `shape`
    lead = g.ndim - len(shape)
    g = g.sum(tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axes, keepdims=True)


# KL( N(q.mean, exp q.log_var) || N(p.mean, exp p.log_var) ), summed over the last axis.
# q: [B, D]; p: [B, D], [1, D] or [D]
@jax.custom_vjp
def kl_gaussians(q, p):
    r = (q.mean - p.mean) ** 2 * jnp.exp(-p.log_var)
    return 0.5 * jnp.sum(p.log_var - q.log_var + jnp.exp(q.log_var - p.log_var) + r - 1.0, -1)


def _kl_fwd(q, p):
    return kl_gaussians(q, p), (q, p)


def _kl_bwd(res, g):
    q, p = res
    g = g[..., None]
    ip = jnp.exp(-p.log_var)
    ratio = jnp.exp(q.log_var - p.log_var)
    d = q.mean - p.mean
    dm = g * d * ip
    dq = Gaussian(dm, 0.5 * g * (ratio - 1.0))
    dp_lv = 0.5 * g * (1.0 - ratio - d * d * ip)
    dp = Gaussian(_match(-dm, p.mean.shape), _match(dp_lv, p.log_var.shape))
    return dq, dp


kl_gaussians.defvjp(_kl_fwd, _kl_bwd)


# Posterior N(mu, L L^T) against N(0, I).  The encoder emits a plain D x D matrix `raw`
# per example: L takes the strictly lower part as is and the exp of the diagonal.
# mu [B, D], raw [B, D, D] -> [B]
@jax.custom_vjp
def kl_full_cov(mu, raw):
    d = mu.shape[-1]
    log_diag = jnp.diagonal(raw, axis1=-2, axis2=-1)
    low = jnp.tril(raw, -1)
    trace = jnp.sum(low**2, (-2, -1)) + jnp.sum(jnp.exp(2 * log_diag), -1)
    return 0.5 * (trace + jnp.sum(mu**2, -1) - d) - jnp.sum(log_diag, -1)


def _klf_fwd(mu, raw):
    return kl_full_cov(mu, raw), (mu, raw)


def _klf_bwd(res, g):
    mu, raw = res
    log_diag = jnp.diagonal(raw, axis1=-2, axis2=-1)
    eye = jnp.eye(mu.shape[-1], dtype=mu.dtype)
    on_diag = jnp.exp(2 * log_diag) - 1.0
    d_raw = raw * (1 - eye) + on_diag[..., None] * eye
    return g[:, None] * mu, g[:, None, None] * d_raw


kl_full_cov.defvjp(_klf_fwd, _klf_bwd)


def sample_full_cov(key, mu, raw):
    low = jnp.tril(raw, -1)
    low = low + jnp.exp(jnp.diagonal(raw, axis1=-2, axis2=-1))[..., None] * jnp.eye(mu.shape[-1])
    eps = jax.random.normal(key, mu.shape)
    return mu + jnp.einsum("bij,bj->bi", low, eps)


def renyi_bound(log_w, alpha=0.0, axis=0):
    """Variational Renyi bound log(mean(w^(1-alpha)))/(1-alpha) over the sample axis.

    alpha = 0 is the importance weighted bound; alpha != 1.
    """
    return _renyi(alpha, axis, log_w)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _renyi(alpha, axis, log_w):
    k = log_w.shape[axis]
    lse = jax.scipy.special.logsumexp((1.0 - alpha) * log_w, axis=axis)
    return (lse - math.log(k)) / (1.0 - alpha)


def _renyi_fwd(alpha, axis, log_w):
    return _renyi(alpha, axis, log_w), jax.nn.softmax(log_w, axis=axis)


def _renyi_bwd(alpha, axis, weights, g):
    return (jnp.expand_dims(g, axis) * weights,)


_renyi.defvjp(_renyi_fwd, _renyi_bwd)


# Discretised logistic, pixels on the grid -1, -1 + 2/(levels-1), ..., 1.
# The two outermost bins take the whole tail.
@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def discretized_logistic(x, mean, log_scale, levels=256):
    return _dl_parts(x, mean, log_scale, levels)[0]


def _dl_parts(x, mean, log_scale, levels):
    half = 1.0 / (levels - 1)
    inv = jnp.exp(-log_scale)
    up = (x - mean + half) * inv
    dn = (x - mean - half) * inv
    width = 2.0 * half * inv
    lo = x < -1.0 + half
    hi = x > 1.0 - half
    mid = jax.nn.log_sigmoid(up) + jax.nn.log_sigmoid(-dn) + jnp.log(-jnp.expm1(-width))
    ll = jnp.where(lo, jax.nn.log_sigmoid(up), jnp.where(hi, jax.nn.log_sigmoid(-dn), mid))
    return ll, (inv, up, dn, width, lo, hi)


def _dl_fwd(x, mean, log_scale, levels):
    return _dl_parts(x, mean, log_scale, levels)


def _dl_bwd(levels, res, g):
    inv, up, dn, width, lo, hi = res
    s_up = jnp.where(hi, 0.0, jax.nn.sigmoid(-up))
    s_dn = jnp.where(lo, 0.0, jax.nn.sigmoid(dn))
    gx = g * (s_up - s_dn) * inv
    edge = jnp.where(lo | hi, 0.0, width / jnp.expm1(width))
    gs = -g * (s_up * up - s_dn * dn + edge)
    return gx, -gx, gs


discretized_logistic.defvjp(_dl_fwd, _dl_bwd)


def free_bits(floor):
    """Returns kl [B, D] -> scalar, sum_d max(mean_b kl[b, d], floor)."""

    @jax.custom_gradient
    def penalty(kl):
        per_dim = kl.mean(0)
        out = jnp.sum(jnp.maximum(per_dim, floor))

        def grad(g):
            return g * jnp.where(kl > floor, 1.0, 0.0) / kl.shape[0]

        return out, grad

    return penalty


def elbo(recon_ll, q, p, floor=0.1):
    # per-dimension KL against a fixed p, then free bits
    kl = jax.vmap(jax.vmap(lambda m, v, pm, pv: kl_gaussians(
        Gaussian(m[None], v[None]), Gaussian(pm[None], pv[None]))), (0, 0, None, None))(
            q.mean, q.log_var, p.mean, p.log_var)
    return recon_ll.mean() - free_bits(floor)(kl)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def concrete_sample(logits, gumbels, temperature, axis=-1):
    """softmax((logits + gumbels) / temperature); temperature is a positive scalar."""
    return jax.nn.softmax((logits + gumbels) / temperature, axis=axis)


@concrete_sample.defjvp
def _concrete_jvp(axis, primals, tangents):
    logits, gumbels, temperature = primals
    dl, dg, dt = tangents
    z = (logits + gumbels) / temperature
    y = jax.nn.softmax(z, axis=axis)
    dz = (dl + dg - z * dt) / temperature
    return y, y * (dz - jnp.sum(y * dz, axis=axis, keepdims=True))
