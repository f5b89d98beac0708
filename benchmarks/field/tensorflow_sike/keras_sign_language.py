import keras
import numpy as np
from keras import ops

HAND_PARENTS = (0, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11, 0, 13, 14, 15, 0, 17, 18, 19)
EPS = 1e-6


def _cotangent(args, upstream):
    return args[-1] if upstream is None else upstream


@ops.custom_gradient
def visible_mean(x, conf):
    w = ops.softplus(conf)
    total = ops.sum(w, axis=-1, keepdims=True) + EPS
    share = w / total
    pooled = ops.sum(share[..., None] * x, axis=-2)

    def grad(*args, upstream=None):
        g = _cotangent(args, upstream)[..., None, :]
        dx = share[..., None] * g
        dw = ops.sum(g * (x - pooled[..., None, :]), axis=-1) / total
        return dx, dw * ops.sigmoid(conf)

    return pooled, grad


def bone_units(parents, eps=1e-8):
    n = len(parents)
    table = np.eye(n) - np.eye(n)[list(parents)]

    @ops.custom_gradient
    def units(joints, lengths):
        inc = ops.cast(table, joints.dtype)
        bones = ops.sum(inc[:, :, None] * joints[..., None, :, :], axis=-2)
        norm = ops.sqrt(ops.sum(bones * bones, axis=-1, keepdims=True) + eps)
        u = bones / norm

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream)
            along = ops.sum(g * u, axis=-1, keepdims=True)
            gb = lengths[:, None] * (g - along * u) / norm
            dl = ops.sum(along, axis=-1)
            dl = ops.sum(ops.reshape(dl, (-1, n)), axis=0)
            return ops.sum(inc[:, :, None] * gb[..., :, None, :], axis=-3), dl

        return lengths[:, None] * u, grad

    return units


def tempo_norm(lengths, frames):
    valid = ops.cast(ops.arange(frames, dtype="int32")[None, :] < lengths[:, None], "float32")

    @ops.custom_gradient
    def norm(x, gain):
        m = ops.cast(valid, x.dtype)[..., None]
        count = ops.maximum(ops.sum(m, axis=1, keepdims=True), 1.0)
        mean = ops.sum(x * m, axis=1, keepdims=True) / count
        centred = (x - mean) * m
        std = ops.sqrt(ops.sum(centred * centred, axis=1, keepdims=True) / count + 1e-5)
        xhat = centred / std

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream)
            gh = g * gain
            drift = ops.sum(gh, axis=1, keepdims=True) / count
            stretch = ops.sum(gh * xhat, axis=1, keepdims=True) / count
            dx = m * (gh - drift - xhat * stretch) / std
            return dx, ops.sum(g * xhat, axis=(0, 1))

        return xhat * gain, grad

    return norm


class HandEncoder(keras.layers.Layer):
    def __init__(self, dim, parents=HAND_PARENTS, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.parents = tuple(parents)
        self._units = bone_units(self.parents)

    def build(self, input_shape):
        self.proj = keras.layers.Dense(self.dim, activation="gelu")
        self.conf = keras.layers.Dense(1)
        self.bone_len = self.add_weight(
            shape=(len(self.parents),), initializer="ones", name="bone_len"
        )

    def call(self, joints):
        bones = self._units(joints, ops.softplus(self.bone_len))
        h = self.proj(ops.concatenate([joints, bones], axis=-1))
        return visible_mean(h, ops.squeeze(self.conf(h), -1))


class TempoNorm(keras.layers.Layer):
    def build(self, input_shape):
        self.gain = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="gain")

    def call(self, x, lengths):
        return tempo_norm(lengths, x.shape[1])(x, 1.0 + self.gain)


class GlossSpotter(keras.Model):
    def __init__(self, glosses, dim=64, **kwargs):
        super().__init__(**kwargs)
        self.left = HandEncoder(dim)
        self.right = HandEncoder(dim)
        self.tempo = TempoNorm()
        self.head = keras.layers.Dense(glosses)

    def call(self, inputs):
        left, right, lengths = inputs
        h = ops.concatenate([self.left(left), self.right(right)], axis=-1)
        h = self.tempo(h, lengths)
        return self.head(h)


def fake_batch(batch=2, frames=12, seed=0):
    rng = np.random.default_rng(seed)
    shape = (batch, frames, len(HAND_PARENTS), 3)
    left = rng.normal(size=shape).astype("float32")
    right = rng.normal(size=shape).astype("float32")
    lengths = rng.integers(frames // 2, frames + 1, batch).astype("int32")
    return left, right, lengths
