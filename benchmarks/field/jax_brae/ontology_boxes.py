"""Embeddings of concept hierarchies: boxes, order cones and inherited features."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

TINY = 1e-20


class Boxes(NamedTuple):
    lo: jax.Array  # [V, D]
    hi: jax.Array  # [V, D]


def init_boxes(key, size, dim, spread=1.0):
    k1, k2 = jax.random.split(key)
    lo = spread * jax.random.normal(k1, (size, dim))
    return Boxes(lo, lo + 0.1 + jax.random.uniform(k2, (size, dim)))


def _side(gap, sharpness):
    return jax.nn.softplus(sharpness * gap) / sharpness


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def box_containment(boxes, child, parent, sharpness=1.0):
    """Log-probability that `child` is a kind of `parent`, from soft box volumes.

    ``log vol(child & parent) - log vol(child)``, where a side of length ``s``
    counts as ``softplus(sharpness * s) / sharpness``, so that disjoint boxes
    still attract each other.

    Args:
      boxes: ``Boxes`` of corner tables, each [V, D].
      child, parent: integer rows [B]; rows may repeat and a row may be met on both sides.
      sharpness: Python float > 0. Large values approach hard volumes.

    Returns:
      [B] log-probabilities (up to the softness, not above zero).
    """
    return _containment(boxes, child, parent, sharpness)[0]


def _containment(boxes, child, parent, sharpness):
    lo_c, hi_c = boxes.lo[child], boxes.hi[child]
    lo_p, hi_p = boxes.lo[parent], boxes.hi[parent]
    meet = jnp.minimum(hi_c, hi_p) - jnp.maximum(lo_c, lo_p)
    own = hi_c - lo_c
    s_meet, s_own = _side(meet, sharpness), _side(own, sharpness)
    logp = jnp.sum(jnp.log(s_meet + TINY) - jnp.log(s_own + TINY), axis=-1)
    return logp, (meet, own, s_meet, s_own)


def _containment_fwd(boxes, child, parent, sharpness):
    logp, sides = _containment(boxes, child, parent, sharpness)
    return logp, (boxes, child, parent, sides)


def _containment_bwd(sharpness, res, ct):
    boxes, child, parent, (meet, own, s_meet, s_own) = res
    g = ct[:, None]
    g_meet = g * jax.nn.sigmoid(meet) / (s_meet + TINY)
    g_own = g * jax.nn.sigmoid(own) / (s_own + TINY)
    child_hi = boxes.hi[child] < boxes.hi[parent]
    child_lo = boxes.lo[child] > boxes.lo[parent]
    d_lo = (
        jnp.zeros_like(boxes.lo)
        .at[child].add(g_own - jnp.where(child_lo, g_meet, 0.0))
        .at[parent].add(-jnp.where(child_lo, 0.0, g_meet))
    )
    d_hi = (
        jnp.zeros_like(boxes.hi)
        .at[child].add(jnp.where(child_hi, g_meet, 0.0) - g_own)
        .at[parent].add(jnp.where(child_hi, 0.0, g_meet))
    )
    return Boxes(d_lo, d_hi), None, None


box_containment.defvjp(_containment_fwd, _containment_bwd)


def _collapse(g, like):
    while g.ndim > like.ndim:
        g = g.sum(0)
    for ax, n in enumerate(like.shape):
        if n == 1 and g.shape[ax] > 1:
            g = g.sum(ax, keepdims=True)
    return g


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def order_violation(general, specific, related, weight, margin=1.0, reduction="mean"):
    """Order-embedding loss of (general, specific) rows; unrelated rows must violate by `margin`."""
    per_row = _violation(general, specific, related, margin)[0]
    if reduction == "none":
        return weight * per_row
    total = jnp.sum(weight * per_row)
    return total / jnp.sum(weight) if reduction == "mean" else total


def _violation(general, specific, related, margin):
    over = jax.nn.relu(general - specific)
    energy = jnp.sum(over**2, axis=-1)
    return jnp.where(related, energy, jax.nn.relu(margin - energy)), over, energy


def _violation_fwd(general, specific, related, weight, margin, reduction):
    out = order_violation(general, specific, related, weight, margin, reduction)
    return out, (general, specific, related, weight)


def _violation_bwd(margin, reduction, res, ct):
    general, specific, related, weight = res
    per_row, over, energy = _violation(general, specific, related, margin)
    shape = jnp.broadcast_shapes(per_row.shape, weight.shape)
    if reduction == "mean":
        norm = jnp.sum(weight)
        mean = jnp.sum(weight * per_row) / norm
        d_weight = ct * (_collapse(jnp.broadcast_to(per_row, shape), weight) - mean) / norm
        row_ct = ct * weight / norm
    else:
        d_weight, row_ct = _collapse(jnp.broadcast_to(ct * per_row, shape), weight), ct * weight
    sign = jnp.where(related, 1.0, jnp.where(energy < margin, -1.0, 0.0))
    d = 2.0 * (row_ct * sign)[..., None] * over
    return _collapse(d, general), _collapse(-d, specific), None, d_weight


order_violation.defvjp(_violation_fwd, _violation_bwd)


@jax.custom_vjp
def inherit_features(offsets, decay, parent):
    def visit(table, i):
        up = jnp.where(parent[i] >= 0, table[parent[i]], 0.0)
        return table.at[i].set(offsets[i] + decay * up), None

    order = jnp.arange(offsets.shape[0])
    return lax.scan(visit, jnp.zeros_like(offsets), order)[0]


def _inherit_fwd(offsets, decay, parent):
    table = inherit_features(offsets, decay, parent)
    return table, (table, decay, parent)


def _inherit_bwd(res, ct):
    table, decay, parent = res
    has_parent = (parent >= 0)[:, None]

    def leave(g, i):
        up = jnp.where(parent[i] >= 0, decay * g[i], 0.0)
        return g.at[parent[i]].add(up), None

    order = jnp.arange(table.shape[0])[::-1]
    g, _ = lax.scan(leave, ct, order)
    d_decay = jnp.sum(ct * jnp.where(has_parent, table[parent], 0.0), axis=0)
    if jnp.ndim(decay) == 0:
        d_decay = d_decay.sum()
    return g, d_decay, None


inherit_features.defvjp(_inherit_fwd, _inherit_bwd)


class Taxonomy:
    """Concepts in topological order: a parent's row comes before its children's."""

    def __init__(self, parent):
        self.parent = jnp.asarray(parent, jnp.int32)

    def features(self, offsets, decay):
        return inherit_features(offsets, decay, self.parent)

    def edges(self):
        child = jnp.nonzero(self.parent >= 0)[0]
        return child, self.parent[child]
