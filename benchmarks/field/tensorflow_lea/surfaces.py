"""Shading pieces with hand-written gradients (any Keras backend)."""

import keras
from keras import ops


def _reduce_to(g, like):
    """Sum `g` over the axes along which `like` was broadcast."""
    shape = like.shape
    lead = len(g.shape) - len(shape)
    if lead:
        g = ops.sum(g, axis=tuple(range(lead)))
    axes = tuple(i for i, s in enumerate(shape) if s == 1 and g.shape[i] != 1)
    return ops.sum(g, axis=axes, keepdims=True) if axes else g


def variance_shadow(depth, moments, min_variance=1e-4, bleed=0.0):
    """Visibility of receivers under a variance shadow map.

    depth: receiver depth, (...); moments: filtered first and second moment of
    the occluder depth, (..., 2). The variance is bounded below by
    `min_variance`. Visibility below `bleed` (0 <= bleed < 1) goes to zero and
    the rest is stretched back to [0, 1].
    """

    @ops.custom_gradient
    def visibility(depth, moments):
        mean, second = moments[..., 0], moments[..., 1]
        raw = second - ops.square(mean)
        var = ops.where(raw > min_variance, raw, ops.full_like(raw, min_variance))
        gap = depth - mean
        total = var + ops.square(gap)
        shaded = gap > 0
        bound = ops.where(shaded, var / total, ops.ones_like(total))
        out = ops.relu(bound - bleed) / (1.0 - bleed)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            active = ops.logical_and(shaded, bound > bleed)
            g = ops.where(active, upstream, ops.zeros_like(upstream))
            g = g / ((1.0 - bleed) * ops.square(total))
            d_var = g * ops.square(gap)
            d_gap = -2.0 * g * gap * var
            d_mean = -d_gap - 2.0 * mean * d_var
            return d_gap, ops.stack([d_mean, d_var], axis=-1)

        return out, grad

    return visibility(depth, moments)


@ops.custom_gradient
def blend_normals(base, detail):
    """Reoriented normal mapping: put `detail` on top of `base`, both (..., 3).

    Tangent space, z up, base z > -1; the two broadcast against each other.
    Returns unit normals.
    """
    flip = ops.convert_to_tensor([-1.0, -1.0, 1.0], dtype=base.dtype)
    up = ops.convert_to_tensor([0.0, 0.0, 1.0], dtype=base.dtype)
    t = base + up
    u = detail * flip
    tz = t[..., 2:]
    dot = ops.sum(t * u, axis=-1, keepdims=True)
    r = t * dot / tz - u
    length = ops.sqrt(ops.sum(r * r, axis=-1, keepdims=True))
    n = r / length

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        dr = (upstream - n * ops.sum(n * upstream, axis=-1, keepdims=True)) / length
        along = ops.sum(dr * t, axis=-1, keepdims=True)
        dt = dr * dot / tz + along / tz * u - up * along * dot / ops.square(tz)
        du = along / tz * t - dr
        return _reduce_to(dt, base), _reduce_to(du * flip, detail)

    return n, grad


class DetailNormals(keras.layers.Layer):
    """Learned detail normals of one tile, laid over a batch of base normals."""

    def __init__(self, strength=0.5, **kwargs):
        super().__init__(**kwargs)
        self.strength = strength

    def build(self, input_shape):
        self.slope = self.add_weight(
            shape=(*input_shape[1:-1], 2), initializer="random_normal", name="slope"
        )

    def call(self, base):
        slope = self.strength * ops.convert_to_tensor(self.slope)
        flat = ops.concatenate([-slope, ops.ones_like(slope[..., :1])], axis=-1)
        detail = flat / ops.sqrt(ops.sum(flat * flat, axis=-1, keepdims=True))
        return blend_normals(base, detail)
