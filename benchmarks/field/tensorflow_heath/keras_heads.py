"""Heads and regularisers that work on any Keras backend.

Written with ``keras.ops`` only.  Integer tables and options are bound when a rule
is made, so that the rules see nothing but float tensors.
"""
from __future__ import annotations

from typing import Literal, Sequence

import keras
import numpy as np
from keras import ops


def _neighbours(x, padding):
    """(B, H, W, C) -> (B, H, W, 9, C), row-major 3x3 neighbourhoods."""
    _, h, w, _ = ops.shape(x)
    if padding == "edge":
        x = ops.concatenate([x[:, :1], x, x[:, -1:]], axis=1)
        x = ops.concatenate([x[:, :, :1], x, x[:, :, -1:]], axis=2)
    else:
        x = ops.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
    return ops.stack([x[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=3)


def make_convex_upsample(factor: int = 8, padding: Literal["zeros", "edge"] = "zeros"):
    """Learned convex upsampling of a coarse displacement field (as in RAFT).

    Every fine pixel is a convex combination of the 3x3 coarse neighbours.

    Args:
        factor: upsampling factor. Displacements are multiplied by it, too.
        padding: what lies outside the coarse map: ``"zeros"``, or ``"edge"`` to
            repeat the border (better for disparity, which is not zero there).

    Returns:
        ``upsample(flow, logits)`` for ``flow`` ``(B, H, W, C)`` and ``logits``
        ``(B, H, W, factor * factor * 9)``; result
        ``(B, factor * H, factor * W, C)``. The neighbourhoods are not kept for
        the backward pass.
    """
    f2 = factor * factor

    def weights(logits):
        b, h, w, _ = ops.shape(logits)
        return ops.softmax(ops.reshape(logits, (b, h, w, f2, 9)), axis=-1)

    @ops.custom_gradient
    def upsample(flow, logits):
        b, h, w, c = ops.shape(flow)
        fine = factor * ops.einsum("bhwfk,bhwkc->bhwfc", weights(logits), _neighbours(flow, padding))
        fine = ops.reshape(fine, (b, h, w, factor, factor, c))
        fine = ops.reshape(ops.transpose(fine, (0, 1, 3, 2, 4, 5)), (b, h * factor, w * factor, c))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = ops.reshape(upstream, (b, h, factor, w, factor, c))
            g = factor * ops.reshape(ops.transpose(g, (0, 1, 3, 2, 4, 5)), (b, h, w, f2, c))
            p = weights(logits)
            dp = ops.einsum("bhwfc,bhwkc->bhwfk", g, _neighbours(flow, padding))
            d_logits = p * (dp - ops.sum(p * dp, axis=-1, keepdims=True))
            dn = ops.einsum("bhwfk,bhwfc->bhwkc", p, g)
            # neighbourhoods overlap: add the nine shifted maps, then drop the margin
            canvas = 0.0
            for k in range(9):
                i, j = divmod(k, 3)
                canvas = canvas + ops.pad(dn[:, :, :, k], [[0, 0], [i, 2 - i], [j, 2 - j], [0, 0]])
            return canvas[:, 1:-1, 1:-1], ops.reshape(d_logits, (b, h, w, f2 * 9))

        return fine, grad

    return upsample


def make_group_shrinkage(group_ids: Sequence[int], scaling: Literal["sqrt_size", "none"] = "sqrt_size"):
    """Proximal step of the group lasso over the last axis.

    ``group_ids[d]`` is the group of coordinate ``d``; groups need not be
    contiguous, and numbers may be skipped.  Each group is shrunk radially:
    ``x_g * max(1 - w_g * strength / ||x_g||, 0)`` with ``w_g`` the square root of
    the group size, or 1.

    The result is ``shrink(x, strength)`` with ``x`` of shape ``(..., D)`` and a
    scalar ``strength > 0``.  A group at or under its threshold gives zeros and
    passes no gradient.
    """
    ids = np.asarray(group_ids, dtype="int32")
    size = np.bincount(ids)
    member = (ids[:, None] == np.arange(size.size)[None, :]).astype("float64")
    w = np.sqrt(size) if scaling == "sqrt_size" else np.ones(size.size)

    def pool(v):
        return ops.sum(ops.expand_dims(v, -1) * ops.cast(member, v.dtype), axis=-2)

    def spread(v):
        return ops.take(v, ids, axis=-1)

    @ops.custom_gradient
    def shrink(x, strength):
        scale = ops.cast(w, x.dtype)
        level = scale * strength
        norm = ops.sqrt(pool(x * x))
        active = norm > level
        safe = ops.where(active, norm, ops.ones_like(norm))
        keep = ops.where(active, 1.0 - level / safe, ops.zeros_like(norm))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            radial = ops.where(active, pool(x * upstream) / safe, ops.zeros_like(norm))
            dx = spread(keep) * upstream + x * spread(level * radial / (safe * safe))
            return dx, -ops.sum(scale * radial)

        return spread(keep) * x, grad

    return shrink


@ops.custom_gradient
def noisy_or_logprob(logits, weights):
    """log P(bag is positive) under a weighted noisy-OR of its instances.

    ``log(1 - prod_i (1 - sigmoid(logits_i)) ** weights_i)`` over the last axis.
    ``weights >= 0`` (attention weights, or a 0/1 padding mask given as floats)
    has the shape of ``logits``; every bag needs at least one positive weight.
    """
    soft = ops.softplus(logits)
    total = ops.sum(weights * soft, axis=-1)
    miss = ops.exp(-total)
    hit = -ops.expm1(-total)
    large = total > 0.7
    value = ops.where(
        large,
        ops.log1p(-ops.where(large, miss, ops.zeros_like(miss))),
        ops.log(hit),
    )

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_total = ops.expand_dims(upstream * miss / hit, -1)
        return d_total * weights * ops.sigmoid(logits), d_total * soft

    return value, grad


def bag_loss(labels, logits, weights):
    """Mean negative log likelihood of bag labels (0/1), shape ``(B,)``."""
    logits, weights = ops.convert_to_tensor(logits), ops.convert_to_tensor(weights)
    positive = noisy_or_logprob(logits, weights)
    negative = -ops.sum(weights * ops.softplus(logits), axis=-1)
    return -ops.mean(ops.where(ops.convert_to_tensor(labels) > 0, positive, negative))


class ConvexUpsample(keras.layers.Layer):
    def __init__(self, factor=4, padding="zeros", hidden=32, **kwargs):
        super().__init__(**kwargs)
        self.factor, self.padding = factor, padding
        self.hidden = keras.layers.Conv2D(hidden, 3, padding="same", activation="relu")
        self.out = keras.layers.Conv2D(9 * factor * factor, 1)
        self._rule = make_convex_upsample(factor, padding)

    def call(self, inputs):
        flow, features = inputs
        return self._rule(flow, 0.25 * self.out(self.hidden(features)))
