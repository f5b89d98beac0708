"""Choosing, ordering and pooling."""
from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def top_k_hot_ste(logits: jax.Array, k: int, temperature: float = 1.0) -> jax.Array:
    """k-hot vector of the largest logits, with a straight-through gradient.

    Forward: ones at the ``k`` largest entries of the last axis, zeros
    elsewhere. Backward: the gradient is, on purpose, that of
    ``k * softmax(logits / temperature)``.
    """
    _, index = jax.lax.top_k(logits, k)
    return jax.nn.one_hot(index, logits.shape[-1], dtype=logits.dtype).sum(-2)


def _top_k_hot_fwd(logits, k, temperature):
    soft = jax.nn.softmax(logits / temperature, axis=-1)
    return top_k_hot_ste(logits, k, temperature), soft


def _top_k_hot_bwd(k, temperature, soft, g):
    centred = g - jnp.sum(g * soft, axis=-1, keepdims=True)
    return (k / temperature * soft * centred,)


top_k_hot_ste.defvjp(_top_k_hot_fwd, _top_k_hot_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def soft_sort_matrix(scores, tau=1.0, descending=True):
    """Unimodal row-stochastic relaxation of the sorting permutation.

    Row ``i`` is ``softmax(-|sorted_i - scores| / tau)``; multiplying the
    matrix by ``scores`` gives the softly sorted scores.

    :param scores: array of shape ``(..., n)``
    :param tau: temperature
    :param descending: largest score in the first row if true
    :return: array of shape ``(..., n, n)``
    """
    return _soft_sort_fwd(scores, tau, descending)[0]


def _soft_sort_fwd(scores, tau, descending):
    order = jnp.argsort(-scores if descending else scores, axis=-1)
    ranked = jnp.take_along_axis(scores, order, axis=-1)
    gap = ranked[..., :, None] - scores[..., None, :]
    matrix = jax.nn.softmax(-jnp.abs(gap) / tau, axis=-1)
    return matrix, (matrix, jnp.sign(gap), order)


def _soft_sort_bwd(tau, descending, res, g):
    matrix, sign, order = res
    d_logit = matrix * (g - jnp.sum(g * matrix, axis=-1, keepdims=True))
    d_gap = -d_logit * sign / tau
    d_scores = -jnp.sum(d_gap, axis=-2)
    d_ranked = jnp.sum(d_gap, axis=-1)
    return (d_scores + jnp.take_along_axis(d_ranked, order, axis=-1),)


soft_sort_matrix.defvjp(_soft_sort_fwd, _soft_sort_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def segment_max_pool(values, segment_ids, num_segments, fill_value=0.0):
    """Largest value of every segment.

    Parameters
    ----------
    values : jax.Array
        Shape ``(n, ...)``.
    segment_ids : jax.Array
        Integers of shape ``(n,)``, in any order; ids outside
        ``[0, num_segments)`` are dropped.
    num_segments : int
    fill_value : float
        What segments without rows hold.

    Returns
    -------
    jax.Array
        Shape ``(num_segments, ...)``. Rows that tie share the gradient.
    """
    return _segment_max_fwd(values, segment_ids, num_segments, fill_value)[0]


def _segment_max_fwd(values, segment_ids, num_segments, fill_value):
    inside = (segment_ids >= 0) & (segment_ids < num_segments)
    slot = jnp.where(inside, segment_ids, num_segments)
    top = jax.ops.segment_max(values, slot, num_segments + 1)[:num_segments]
    rows = jax.ops.segment_sum(inside.astype(jnp.int32), slot, num_segments + 1)[:num_segments]
    filled = (rows > 0).reshape((num_segments,) + (1,) * (values.ndim - 1))
    out = jnp.where(filled, top, jnp.asarray(fill_value, values.dtype))
    return out, (values, slot, inside, out)


def _segment_max_bwd(num_segments, fill_value, res, g):
    values, slot, inside, out = res
    safe = jnp.minimum(slot, num_segments - 1)
    column = inside.reshape((-1,) + (1,) * (values.ndim - 1))
    wins = ((values == out[safe]) & column).astype(values.dtype)
    count = jax.ops.segment_sum(wins, safe, num_segments)
    share = g / jnp.maximum(count, 1)
    return wins * share[safe], None


segment_max_pool.defvjp(_segment_max_fwd, _segment_max_bwd)
