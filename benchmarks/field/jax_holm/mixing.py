"""Batch mixing, relative scores and a factorised table for the retrieval encoder."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int


@jax.custom_vjp
def mixup_pairs(
    x: Float[Array, "b d"], lam: Float[Array, " b"], partner: Int[Array, " b"]
) -> Float[Array, "b d"]:
    """Mixes every example of a batch with a partner from the same batch.

    Computes ``lam[i] * x[i] + (1 - lam[i]) * x[partner[i]]``. When this is applied to hidden activations
    (manifold mixup) the gradient has to reach both examples of a pair.

    Args:
      x: activations, one row per example.
      lam: mixing weight of each row, in [0, 1].
      partner: row index of the partner. Usually a random permutation; hard-example mixing draws partners with
        replacement, so that an index can occur more than once.

    Returns:
      The mixed activations.
    """
    w = lam[:, None]
    return w * x + (1 - w) * x[partner]


def _mixup_fwd(x, lam, partner):
    return mixup_pairs(x, lam, partner), (x, lam, partner)


def _mixup_bwd(res, g):
    x, lam, partner = res
    w = lam[:, None]
    dx = w * g + ((1 - w) * g)[partner]
    dlam = jnp.sum(g * (x - x[partner]), axis=1)
    return dx, dlam, None


mixup_pairs.defvjp(_mixup_fwd, _mixup_bwd)


@jax.custom_vjp
def relative_shift(scores):
    """Transformer-XL shift of (..., q, k) relative scores via pad, reshape and drop."""
    *lead, q, k = scores.shape
    padded = jnp.pad(scores, [(0, 0)] * len(lead) + [(0, 0), (1, 0)])
    return padded.reshape(*lead, k + 1, q)[..., 1:, :].reshape(*lead, q, k)


def _shift_fwd(scores):
    return relative_shift(scores), None


def _shift_bwd(_, g):
    *lead, q, k = g.shape
    rows = jnp.pad(g.reshape(*lead, k, q), [(0, 0)] * len(lead) + [(1, 0), (0, 0)])
    return (rows.reshape(*lead, q, k + 1)[..., 1:],)


relative_shift.defvjp(_shift_fwd, _shift_bwd)


@jax.custom_vjp
def tt_rows(left, right, ids):
    hi, lo = jnp.divmod(ids, right.shape[0])
    return jnp.einsum("...ar,...rb->...ab", left[hi], right[lo]).reshape(*ids.shape, -1)


def _tt_fwd(left, right, ids):
    return tt_rows(left, right, ids), (left, right, ids)


def _tt_bwd(res, g):
    left, right, ids = res
    hi, lo = jnp.divmod(ids, left.shape[0])
    g = g.reshape(*ids.shape, left.shape[1], right.shape[2])
    d_left = jnp.einsum("...ab,...rb->...ar", g, right[lo])
    d_right = jnp.einsum("...ar,...ab->...rb", left[hi], g)
    return (
        jnp.zeros_like(left).at[hi].add(d_left),
        jnp.zeros_like(right).at[lo].add(d_right),
        None,
    )


tt_rows.defvjp(_tt_fwd, _tt_bwd)


class TTTable(NamedTuple):
    left: jax.Array  # (v1, d1, rank)
    right: jax.Array  # (v2, rank, d2)

    @classmethod
    def create(cls, key, vocab, dims, rank=8):
        k1, k2 = jax.random.split(key)
        v1 = int(math.sqrt(vocab))
        v2 = -(-vocab // v1)
        scale = (rank * dims[0] * dims[1]) ** -0.25
        return cls(
            scale * jax.random.normal(k1, (v1, dims[0], rank)),
            scale * jax.random.normal(k2, (v2, rank, dims[1])),
        )

    def __call__(self, ids):
        return tt_rows(self.left, self.right, ids)
