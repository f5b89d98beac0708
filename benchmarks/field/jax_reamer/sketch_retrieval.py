"""Finding photographs from pen sketches.

A sketch is a list of stroke points (pen lifts are dropped); an encoder of a few
attention layers turns it into one vector, which is compared with the vectors
of the photo gallery.
"""
from functools import partial
from typing import Callable

import jax
import jax.numpy as jnp

Array = jax.Array
NORM_FLOOR = 1e-6


def make_stroke_attention(causal: bool = False) -> Callable:
    """Attention along the pen path with a learned penalty per step of distance.

    The result is ``attend(q, k, v, slope, on_paper)``:

      q         (heads, points, dim)
      k, v      (heads, points, dim), or (1, points, dim) where all heads read
                the same keys and values
      slope     (heads,) penalty for each point between query and key
      on_paper  (points,) bool, False for points of lifted pen; at least the
                first point is on paper
    """

    def penalty(n, dtype):
        at = jnp.arange(n)
        return jnp.abs(at[:, None] - at[None, :]).astype(dtype)

    def weights(q, k, slope, on_paper):
        n, dim = q.shape[1:]
        scores = jnp.einsum("hid,hjd->hij", q, jnp.broadcast_to(k, q.shape)) / dim**0.5
        scores = scores - slope[:, None, None] * penalty(n, q.dtype)
        seen = jnp.broadcast_to(on_paper[None, :], (n, n))
        if causal:
            seen = seen & jnp.tril(jnp.ones((n, n), bool))
        return jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)

    def to_shared(grad, like):
        return grad if like.shape[0] == grad.shape[0] else grad.mean(0, keepdims=True)

    @jax.custom_vjp
    def attend(q, k, v, slope, on_paper):
        w = weights(q, k, slope, on_paper)
        return jnp.einsum("hij,hjd->hid", w, jnp.broadcast_to(v, q.shape))

    def fwd(q, k, v, slope, on_paper):
        return attend(q, k, v, slope, on_paper), (q, k, v, slope, on_paper)

    def bwd(res, g):
        q, k, v, slope, on_paper = res
        w = weights(q, k, slope, on_paper)
        d_w = jnp.einsum("hid,hjd->hij", g, jnp.broadcast_to(v, q.shape))
        d_s = w * (d_w - (w * d_w).sum(-1, keepdims=True))
        scale = q.shape[-1] ** -0.5
        d_q = scale * jnp.einsum("hij,hjd->hid", d_s, jnp.broadcast_to(k, q.shape))
        d_k = scale * jnp.einsum("hij,hid->hjd", d_s, q)
        d_v = jnp.einsum("hij,hid->hjd", w, g)
        d_slope = -(d_s * penalty(q.shape[1], q.dtype)).sum((1, 2))
        return d_q, to_shared(d_k, k), to_shared(d_v, v), d_slope, None

    attend.defvjp(fwd, bwd)
    return attend


def _unit(x):
    size = jnp.sqrt((x * x).sum(-1, keepdims=True))
    held = jnp.maximum(size, NORM_FLOOR)
    return x / held, held, size > NORM_FLOOR


def _unit_pull(unit, held, long_enough, g):
    along = (unit * g).sum(-1, keepdims=True)
    return (g - jnp.where(long_enough, along, 0.0) * unit) / held


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def hub_adjusted_similarity(sketches: Array, photos: Array, neighbours: int = 10) -> Array:
    """Cosine similarities with the hubs taken down.

    2 cos(s, p) minus the mean of the ``neighbours`` largest cosines of sketch s
    and minus that of photo p.  With fewer candidates than ``neighbours`` all of
    them count.

    sketches: (n, dim), photos: (m, dim) -> (n, m)
    """
    return _hub_fwd(sketches, photos, neighbours)[0]


def _hub_fwd(sketches, photos, neighbours):
    s, p = _unit(sketches), _unit(photos)
    cos = s[0] @ p[0].T
    by_row, row_at = jax.lax.top_k(cos, min(neighbours, cos.shape[1]))
    by_col, col_at = jax.lax.top_k(cos.T, min(neighbours, cos.shape[0]))
    out = 2 * cos - by_row.mean(1)[:, None] - by_col.mean(1)[None, :]
    return out, (s, p, row_at, col_at)


def _hub_bwd(neighbours, res, g):
    s, p, row_at, col_at = res
    n, m = g.shape
    d = 2 * g
    d = d.at[jnp.arange(n)[:, None], row_at].add(-g.sum(1)[:, None] / row_at.shape[1])
    d = d.at[col_at, jnp.arange(m)[:, None]].add(-g.sum(0)[:, None] / col_at.shape[1])
    return _unit_pull(*s, d @ p[0]), _unit_pull(*p, d.T @ s[0])


hub_adjusted_similarity.defvjp(_hub_fwd, _hub_bwd)


@jax.custom_vjp
def distractor_cost(match: Array, distractors: Array, present: Array, margin: Array) -> Array:
    """Soft hinge between a sketch's own photo and its distractors.

    match (n,), distractors (n, m), present (n, m) bool, margin scalar.
    Every sketch counts the same, however many distractors it has got: the cost
    is averaged over a sketch's distractors first, then over the sketches.
    """
    return _cost_fwd(match, distractors, present, margin)[0]


def _cost_fwd(match, distractors, present, margin):
    gap = distractors - match[:, None] + margin
    keep = present.astype(gap.dtype)
    per_sketch = (keep * jax.nn.softplus(gap)).sum(1) / jnp.maximum(keep.sum(1), 1)
    return per_sketch.mean(), (gap, keep)


def _cost_bwd(res, g):
    gap, keep = res
    pull = g * keep * jax.nn.sigmoid(gap) / jnp.maximum(keep.sum(), 1)
    return -pull.sum(1), pull, None, pull.sum()


distractor_cost.defvjp(_cost_fwd, _cost_bwd)


def retrieval_loss(sketches, photos, margin=0.2, neighbours=5):
    """Pairs are on the diagonal; everything else is a distractor."""
    sim = hub_adjusted_similarity(sketches, photos, neighbours)
    off = ~jnp.eye(sim.shape[0], dtype=bool)
    return distractor_cost(jnp.diagonal(sim), sim, off, jnp.asarray(margin, sim.dtype))
