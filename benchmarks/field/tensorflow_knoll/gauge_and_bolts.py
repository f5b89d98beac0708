from typing import NamedTuple

import keras
from keras import ops

SQRT3 = 1.7320508075688772


class Rosette(NamedTuple):
    mean: tuple
    cosine: tuple
    sine: tuple


LAYOUTS = {
    "rectangular": Rosette((0.5, 0.0, 0.5), (0.5, 0.0, -0.5), (-0.5, 1.0, -0.5)),
    "delta": Rosette((1 / 3, 1 / 3, 1 / 3), (2 / 3, -1 / 3, -1 / 3), (0.0, 1 / SQRT3, -1 / SQRT3)),
}


def _unbroadcast(x, shape):
    while len(x.shape) > len(shape):
        x = ops.sum(x, axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and x.shape[axis] != 1:
            x = ops.sum(x, axis=axis, keepdims=True)
    return x


def principal_strains(gauges, apparent, layout="rectangular"):
    """Principal strains [..., 2] (larger first) of rosettes [..., 3], less the apparent strain (broadcast to [...])."""
    legs = LAYOUTS[layout]

    @ops.custom_gradient
    def resolve(gauges, apparent):
        mean_w, cos_w, sin_w = (ops.convert_to_tensor(w, dtype=gauges.dtype) for w in legs)
        centre = ops.sum(gauges * mean_w, axis=-1)
        u = ops.sum(gauges * cos_w, axis=-1)
        v = ops.sum(gauges * sin_w, axis=-1)
        radius = ops.sqrt(u * u + v * v)
        net = centre - apparent
        out = ops.stack([net + radius, net - radius], axis=-1)

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            both = g[..., 0] + g[..., 1]
            diff = g[..., 0] - g[..., 1]
            safe = ops.where(radius > 0, radius, ops.ones_like(radius))
            d_u = ops.expand_dims(diff * u / safe, -1)
            d_v = ops.expand_dims(diff * v / safe, -1)
            d_gauges = ops.expand_dims(both, -1) * mean_w + d_u * cos_w + d_v * sin_w
            return d_gauges, _unbroadcast(-both, apparent.shape)

        return out, grad

    return resolve(gauges, apparent)


def _turned(v):
    return ops.stack([-v[..., 1], v[..., 0]], axis=-1)


def bolt_forces(bolts, load, point, fitted):
    @ops.custom_gradient
    def elastic(bolts, load, point):
        m = ops.expand_dims(ops.cast(fitted, bolts.dtype), -1)
        count = ops.sum(m, axis=1, keepdims=True)
        centre = ops.sum(m * bolts, axis=1, keepdims=True) / count
        r = m * (bolts - centre)
        polar = ops.sum(r * r, axis=(1, 2), keepdims=True)
        arm = point - centre[:, 0]
        moment = (arm[:, 0] * load[:, 1] - arm[:, 1] * load[:, 0])[:, None, None]
        forces = m * load[:, None, :] / count + moment * _turned(r) / polar

        def grad(*args, upstream=None):
            g = m * (upstream if upstream is not None else args[0])
            d_moment = ops.sum(g * _turned(r), axis=(1, 2), keepdims=True) / polar
            d_arm = -d_moment[:, 0] * _turned(load)
            d_load = ops.sum(g, axis=1) / count[:, 0] + d_moment[:, 0] * _turned(arm)
            d_r = -_turned(g) * moment / polar - 2.0 * r * moment * d_moment / polar
            d_centre = -ops.mean(d_r, axis=1, keepdims=True)
            d_bolts = m * (d_r + d_centre - d_arm[:, None, :] / count)
            return d_bolts, d_load, d_arm

        return forces, grad

    return elastic(bolts, load, point)


class BoltGroup(keras.layers.Layer):
    def __init__(self, capacity, **kwargs):
        super().__init__(**kwargs)
        self.capacity = capacity

    def call(self, bolts, load, point, fitted):
        forces = bolt_forces(bolts, load, point, fitted)
        return ops.sqrt(ops.sum(forces * forces, axis=-1) + 1e-12) / self.capacity
