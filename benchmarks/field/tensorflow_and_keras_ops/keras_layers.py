"""Backend-agnostic Keras 3 layers with custom gradients.

Everything is written with ``keras.ops`` and follows the documented form of ``keras.ops.custom_gradient`` so that the
same code runs on TensorFlow, JAX and PyTorch.
"""
import keras
import numpy as np
from keras import ops


def rms_scale(x, weight, eps=1e-6):
    """RMS norm over the feature axis.

    Args:
        x: Tensor of shape `(batch, ..., features)`.
        weight: Tensor of shape `(features,)`.
        eps: Small constant.

    Returns:
        Tensor shaped like `x`.
    """

    @ops.custom_gradient
    def fn(x, weight):
        inv = ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + eps)
        xhat = x * inv

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            proj = ops.mean(upstream * xhat, axis=-1, keepdims=True)
            dx = inv * weight * (upstream - xhat * proj)
            dweight = ops.sum(upstream * xhat, axis=list(range(len(x.shape) - 1)))
            return dx, dweight

        return xhat * weight, grad

    return fn(x, weight)


class RMSScale(keras.layers.Layer):
    def build(self, input_shape):
        self.weight = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="weight")

    def call(self, x):
        return rms_scale(x, ops.cast(self.weight, x.dtype))


@ops.custom_gradient
def film(x, gamma, beta):
    """Feature-wise modulation of a map (B, ..., C) by per-sample vectors (B, C)."""
    middle = list(range(1, len(x.shape) - 1))
    g = ops.expand_dims(gamma, middle) if middle else gamma
    b = ops.expand_dims(beta, middle) if middle else beta

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        dg, db = upstream * x, upstream
        if middle:
            dg, db = ops.sum(dg, axis=middle), ops.sum(db, axis=middle)
        return upstream * (1.0 + g), dg, db

    return x * (1.0 + g) + b, grad


def glu(x, axis=-1):
    """Gated linear unit: the first half along ``axis`` times the sigmoid of the second."""

    @ops.custom_gradient
    def fn(x):
        a, b = ops.split(x, 2, axis=axis)
        s = ops.sigmoid(b)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return ops.concatenate([upstream * s, upstream * a * s * (1.0 - s)], axis=axis)

        return a * s, grad

    return fn(x)


def gem_pool(x, p, eps=1e-6):
    # x (B, H, W, C), p (C,) -> (B, C)
    @ops.custom_gradient
    def fn(x, p):
        xc = ops.maximum(x, eps)
        xp = ops.power(xc, p)
        m = ops.mean(xp, axis=(1, 2))
        y = ops.power(m, 1.0 / p)
        n = x.shape[1] * x.shape[2]

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            lead = upstream * y / m
            live = ops.cast(x > eps, xc.dtype)
            dx = lead[:, None, None, :] * (xp / xc) * live / n
            mean_log = ops.mean(xp * ops.log(xc), axis=(1, 2))
            dp = ops.sum(upstream * y * (mean_log / (p * m) - ops.log(m) / ops.square(p)), axis=0)
            return dx, dp

        return y, grad

    return fn(x, p)


class GeMPooling2D(keras.layers.Layer):
    """Generalised-mean pooling with one learned exponent per channel (channels last)."""

    def __init__(self, initial_p=3.0, **kwargs):
        super().__init__(**kwargs)
        self.initial_p = initial_p

    def build(self, input_shape):
        self.p = self.add_weight(
            shape=(input_shape[-1],), initializer=keras.initializers.Constant(self.initial_p), name="p"
        )

    def call(self, x):
        return gem_pool(x, ops.cast(self.p, x.dtype))


def masked_mean_pool(x, mask):
    """Average of the tokens that `mask` keeps.

    Parameters
    ----------
    x : (batch, time, features)
    mask : (batch, time) of bool, at least one True per row
    """
    m = ops.cast(mask, x.dtype)[:, :, None]

    @ops.custom_gradient
    def fn(x):
        y = ops.sum(x * m, axis=1) / ops.sum(m, axis=1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return m * upstream[:, None, :] / x.shape[1]

        return y, grad

    return fn(x)


def rope_tables(length, dim, base=10000.0, dtype="float32"):
    freq = base ** (-np.arange(0, dim, 2) / dim)
    angle = np.arange(length)[:, None] * freq[None, :]
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def _rotate(x, cos, sin):
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return ops.concatenate([x1 * cos - x2 * sin, x1 * sin + x2 * cos], axis=-1)


def apply_rope(x, base=10000.0):
    """Rotary position embedding for `x` of shape (batch, heads, time, dim)."""
    cos, sin = rope_tables(x.shape[2], x.shape[3], base, keras.backend.standardize_dtype(x.dtype))
    cos, sin = ops.convert_to_tensor(cos), ops.convert_to_tensor(sin)

    @ops.custom_gradient
    def fn(x):
        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return _rotate(upstream, cos, sin)

        return _rotate(x, cos, sin), grad

    return fn(x)


def embedding_mean(table, ids):
    """Mean of the embeddings of each row of ids; id 0 is padding and does not count.

    :param table: ``(vocab, dim)``
    :param ids: integers, ``(batch, length)``
    :returns: ``(batch, dim)``, zeros for a row of padding
    """
    ids = ops.cast(ids, "int32")

    @ops.custom_gradient
    def fn(table):
        keep = ops.cast(ids != 0, table.dtype)
        count = ops.maximum(ops.sum(keep, axis=1, keepdims=True), 1.0)
        share = keep / count
        y = ops.sum(ops.take(table, ids, axis=0) * share[:, :, None], axis=1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            per_token = share[:, :, None] * upstream[:, None, :]
            flat = ops.reshape(per_token, (-1, table.shape[1]))
            return ops.segment_sum(flat, ops.reshape(ids, (-1,)), num_segments=table.shape[0])

        return y, grad

    return fn(table)


def temperature_softmax(x, temperature=1.0, axis=-1):
    @ops.custom_gradient
    def fn(x):
        y = ops.softmax(x / temperature, axis=axis)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            inner = ops.sum(upstream * y, axis=-1, keepdims=True)
            return y * (upstream - inner) / temperature

        return y, grad

    return fn(x)


@ops.custom_gradient
def cross_interaction(x0, x, w, b):
    """One cross step of a deep & cross network: ``x0 * (x . w) + b + x``.

    x0, x: (batch, dim); w, b: (dim,)
    """
    s = ops.sum(x * w, axis=-1, keepdims=True)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        t = ops.sum(upstream * x0, axis=-1, keepdims=True)
        dx0 = upstream * s + upstream
        dx = t * w
        dw = ops.sum(t * x, axis=0)
        db = ops.sum(upstream, axis=0)
        return dx0, dx, dw, db

    return x0 * s + b + x, grad


class CrossNetwork(keras.layers.Layer):
    def __init__(self, depth=2, **kwargs):
        super().__init__(**kwargs)
        self.depth = depth

    def build(self, input_shape):
        dim = input_shape[-1]
        self.ws = [self.add_weight(shape=(dim,), initializer="random_normal", name=f"w{i}") for i in range(self.depth)]
        self.bs = [self.add_weight(shape=(dim,), initializer="zeros", name=f"b{i}") for i in range(self.depth)]

    def call(self, x0):
        x = x0
        for w, b in zip(self.ws, self.bs):
            x = cross_interaction(x0, x, ops.cast(w, x.dtype), ops.cast(b, x.dtype))
        return x


if __name__ == "__main__":
    inputs = keras.Input((12,))
    model = keras.Model(inputs, keras.layers.Dense(1)(CrossNetwork(3)(inputs)))
    model.compile("adam", "mse")
    model.fit(np.random.randn(64, 12), np.random.randn(64, 1), epochs=1, verbose=2)
