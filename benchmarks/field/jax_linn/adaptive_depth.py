"""Variable-depth blocks: where to stop, what to return, and what it costs."""

import jax
import jax.numpy as jnp
from jax import lax


def _stick(lam):
    """Probability of stopping at each step, and of reaching it."""
    stay = 1.0 - lam[..., :-1]
    reach = jnp.concatenate([jnp.ones_like(lam[..., :1]), jnp.cumprod(stay, axis=-1)], axis=-1)
    stop = lam.at[..., -1].set(1.0)
    return reach * stop, reach


@jax.custom_vjp
def halting_distribution(lam):
    """[..., N] stop probabilities -> [..., N] halting distribution; the last step takes the rest.

    Entries may be exactly 0 or 1. The last entry of ``lam`` has no effect.
    """
    return _stick(lam)[0]


def _halting_fwd(lam):
    p, reach = _stick(lam)
    return p, (lam, reach)


def _halting_bwd(res, g):
    lam, reach = res

    def step(value, xs):
        g_n, lam_n = xs
        return lam_n * g_n + (1.0 - lam_n) * value, value

    g_t = jnp.moveaxis(g, -1, 0)
    lam_t = jnp.moveaxis(lam, -1, 0)
    _, later = lax.scan(step, g_t[-1], (g_t[:-1], lam_t[:-1]), reverse=True)
    d = reach[..., :-1] * (g[..., :-1] - jnp.moveaxis(later, 0, -1))
    return (jnp.concatenate([d, jnp.zeros_like(g[..., :1])], axis=-1),)


halting_distribution.defvjp(_halting_fwd, _halting_bwd)


class DepthMix:
    """Expected state over the halting distribution.

    With ``renormalize`` the weights of the steps that were run are scaled to sum to one (at early
    exit the tail of the distribution is cut off).
    """

    def __init__(self, renormalize=False, eps=1e-6):
        self.renormalize = renormalize
        self.eps = eps

    def __call__(self, states, p, ran):
        return depth_mix(states, p, ran, self.renormalize, self.eps)


def _depth_mix(states, p, ran, renormalize=False, eps=1e-6):
    w = jnp.where(ran, p, 0.0)
    total = w.sum(-1, keepdims=True) + eps if renormalize else jnp.ones_like(w[..., :1])
    return jnp.einsum("bn,bnd->bd", w / total, states)


def _depth_mix_fwd(states, p, ran, renormalize, eps):
    w = jnp.where(ran, p, 0.0)
    total = w.sum(-1, keepdims=True) + eps if renormalize else jnp.ones_like(w[..., :1])
    w = w / total
    return jnp.einsum("bn,bnd->bd", w, states), (states, w, total, ran)


def _depth_mix_bwd(renormalize, eps, res, g):
    states, w, total, ran = res
    d_states = w[..., None] * g[:, None, :]
    d_p = jnp.where(ran, jnp.einsum("bnd,bd->bn", states, g) / total, 0.0)
    return d_states, d_p, None


depth_mix = jax.custom_vjp(_depth_mix, nondiff_argnums=(3, 4))
depth_mix.defvjp(_depth_mix_fwd, _depth_mix_bwd)


def _geometric_log_prior(lam, n):
    k = jnp.arange(n)
    stay = k * jnp.log1p(-lam)
    return stay.at[: n - 1].add(jnp.log(lam))


def _ponder_rows(p, lam):
    logq = _geometric_log_prior(lam, p.shape[-1])
    return jnp.sum(p * (jnp.log(p) - logq), axis=-1), logq


def _reduce(rows, weight, reduction):
    if reduction == "none":
        return weight * rows
    total = jnp.sum(weight * rows)
    return total / jnp.sum(weight) if reduction == "mean" else total


def _ponder_kl(p, weight, lam, reduction="mean"):
    return _reduce(_ponder_rows(p, lam)[0], weight, reduction)


def _ponder_kl_fwd(p, weight, lam, reduction):
    rows, logq = _ponder_rows(p, lam)
    out = _reduce(rows, weight, reduction)
    return out, (p, weight, lam, rows, logq, out)


def _ponder_kl_bwd(reduction, res, g):
    p, weight, lam, rows, logq, out = res
    if reduction == "mean":
        norm = weight.shape[0]
        g_rows, d_weight = g * weight / norm, g * (rows - out) / norm
    else:
        g_rows, d_weight = g * weight, g * rows
    k = jnp.arange(p.shape[-1])
    d_p = g_rows[:, None] * (jnp.log(p) - logq + 1.0)
    by_lam = (k < p.shape[-1] - 1) / lam - k / (1.0 - lam)
    return d_p, d_weight, -jnp.sum(g_rows[:, None] * p * by_lam)


ponder_kl = jax.custom_vjp(_ponder_kl, nondiff_argnums=(3,))
ponder_kl.defvjp(_ponder_kl_fwd, _ponder_kl_bwd)
