"""Determinantal point processes for diverse subset selection."""
from functools import partial

import jax
import jax.numpy as jnp


def build_kernel(log_quality, feats, ridge):
    b = jnp.exp(log_quality)[:, None] * feats
    return b @ b.T + ridge * jnp.diag(jnp.exp(2.0 * log_quality)), b


def _pad_block(kernel, subset, valid):
    blk = kernel[subset[:, :, None], subset[:, None, :]]
    both = valid[:, :, None] & valid[:, None, :]
    eye = jnp.eye(subset.shape[-1], dtype=kernel.dtype)
    return jnp.where(both, blk, 0.0) + eye * ~valid[:, None, :], both


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def subset_log_likelihood(log_quality, feats, subset, valid, ridge=1e-2):
    """Log likelihood of observed subsets under an L-ensemble.

    The kernel is ``q_i q_j (<f_i, f_j> + ridge [i == j])`` with
    ``q = exp(log_quality)``; all subsets share it.

    Args:
      log_quality: (M,) item log qualities.
      feats: (M, D) diversity features (rows need not be normalised).
      subset: (B, K) int item ids, distinct within the valid part of a row.
      valid: (B, K) bool; entries past the end of a subset are False and their
        ids may be anything in range.
      ridge: positive diagonal loading, needed once K exceeds D.

    Returns:
      (B,) log probabilities.
    """
    return _sll(log_quality, feats, subset, valid, ridge)[0]


def _sll(log_quality, feats, subset, valid, ridge):
    kernel, b = build_kernel(log_quality, feats, ridge)
    blk, both = _pad_block(kernel, subset, valid)
    full = kernel + jnp.eye(kernel.shape[0], dtype=kernel.dtype)
    out = jnp.linalg.slogdet(blk)[1] - jnp.linalg.slogdet(full)[1]
    return out, (log_quality, b, subset, blk, both, full)


def _sll_bwd(ridge, res, g):
    log_quality, b, subset, blk, both, full = res
    inner = jnp.where(both, jnp.linalg.inv(blk), 0.0) * g[:, None, None]
    d_kernel = -jnp.sum(g) * jnp.linalg.inv(full)
    d_kernel = d_kernel.at[subset[:, :, None], subset[:, None, :]].add(inner)
    d_b = (d_kernel + d_kernel.T) @ b
    q = jnp.exp(log_quality)
    d_logq = jnp.sum(d_b * b, axis=-1) + 2.0 * ridge * q * q * jnp.diagonal(d_kernel)
    return d_logq, d_b * q[:, None], None, None


subset_log_likelihood.defvjp(_sll, _sll_bwd)


@jax.custom_vjp
def inclusion_probability(kernel):
    """Chance of each item to be drawn, diag(L (I + L)^-1); kernel (..., M, M), P0 but not nec. symmetric."""
    return _inclusion_fwd(kernel)[0]


def _inclusion_fwd(kernel):
    m = kernel.shape[-1]
    a = jnp.linalg.inv(jnp.eye(m, dtype=kernel.dtype) + kernel)
    return 1.0 - jnp.diagonal(a, axis1=-2, axis2=-1), a


def _inclusion_bwd(a, g):
    return (jnp.einsum("...ji,...i,...ik->...jk", a, g, a),)


inclusion_probability.defvjp(_inclusion_fwd, _inclusion_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def conditional_gain(kernel, taken, jitter=1e-6):
    # log det gain of adding each item to the set `taken` (M,) bool; zero for members
    return _gain_fwd(kernel, taken, jitter)[0]


def _gain_fwd(kernel, taken, jitter):
    yy = taken[:, None] & taken[None, :]
    w = jnp.linalg.inv(jnp.where(yy, kernel, 0.0) + jnp.diag(jnp.where(taken, jitter, 1.0)))
    w = jnp.where(yy, w, 0.0)
    right = w @ kernel          # columns: W c_i
    left = kernel @ w           # rows: r_i W
    schur = jnp.diagonal(kernel) - jnp.einsum("ij,ji->i", left, kernel)
    schur = jnp.where(taken, 1.0, schur + jitter)
    return jnp.log(schur), (left, right, schur, taken)


def _gain_bwd(jitter, res, g):
    left, right, schur, taken = res
    s = jnp.where(taken, 0.0, g / schur)
    d = jnp.diag(s)
    d = d - s[:, None] * right.T            # dL[i, Y]
    d = d - left.T * s[None, :]             # dL[Y, i]
    d = d + jnp.einsum("ia,i,bi->ab", left, s, right)
    return d, None


conditional_gain.defvjp(_gain_fwd, _gain_bwd)


def greedy_map(kernel, k):
    """k greedy picks of the MAP subset."""
    def pick(taken, _):
        gain = jnp.where(taken, -jnp.inf, conditional_gain(kernel, taken))
        i = jnp.argmax(gain)
        return taken.at[i].set(True), i
    return jax.lax.scan(pick, jnp.zeros(kernel.shape[0], bool), None, length=k)[1]
