"""Keras 3 layers built on ops with their own gradients."""
import math

import keras
from keras import ops


@ops.custom_gradient
def prelu(x, alpha):
    """PReLU with one slope per channel; the output is all that is kept."""
    y = ops.where(x >= 0, x, alpha * x)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        positive = y >= 0
        dx = ops.where(positive, upstream, alpha * upstream)
        da = ops.where(positive, ops.zeros_like(y), upstream * y / alpha)
        return dx, ops.sum(ops.reshape(da, (-1, y.shape[-1])), axis=0)

    return y, grad


class ChannelPReLU(keras.layers.Layer):
    def __init__(self, initial=0.25, **kwargs):
        super().__init__(**kwargs)
        self.initial = initial

    def build(self, input_shape):
        self.alpha = self.add_weight(
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(self.initial),
            name="alpha",
        )

    def call(self, x):
        return prelu(x, 1.0 * self.alpha)


def masked_mean_pool(x, lengths):
    """Mean over the first `lengths[i]` steps of each sequence.

    Args:
        x: `(batch, time, features)`.
        lengths: `(batch,)` integers; a row of length 0 pools to zeros.

    Returns:
        `(batch, features)`.
    """
    x = ops.convert_to_tensor(x)
    lengths = ops.expand_dims(ops.cast(lengths, "int32"), -1)
    steps = ops.expand_dims(ops.arange(x.shape[1], dtype="int32"), 0)
    mask = ops.cast(steps < lengths, x.dtype)
    weight = ops.expand_dims(mask / ops.cast(ops.maximum(lengths, 1), x.dtype), -1)

    @ops.custom_gradient
    def _pool(x):
        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return weight * ops.expand_dims(upstream, 1)

        return ops.sum(weight * x, axis=1), grad

    return _pool(x)


def attention(q, k, v, key_mask=None):
    """Multi-head attention core.

    :param q: ``(batch, heads, queries, depth)``
    :param k: ``(batch, heads, keys, depth)``
    :param v: ``(batch, heads, keys, depth_v)``
    :param key_mask: boolean ``(batch, keys)``, False where a key is padding
    :return: ``(batch, heads, queries, depth_v)``
    """
    q, k, v = (ops.convert_to_tensor(t) for t in (q, k, v))
    scale = 1.0 / math.sqrt(q.shape[-1])

    @ops.custom_gradient
    def _attend(q, k, v):
        scores = ops.einsum("bhqd,bhkd->bhqk", q, k) * scale
        if key_mask is not None:
            keep = ops.cast(key_mask, "bool")[:, None, None, :]
            scores = ops.where(keep, scores, ops.full_like(scores, -1e9))
        p = ops.softmax(scores, axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dv = ops.einsum("bhqk,bhqe->bhke", p, upstream)
            dp = ops.einsum("bhqe,bhke->bhqk", upstream, v)
            ds = scale * p * (dp - ops.sum(p * dp, axis=-1, keepdims=True))
            return (
                ops.einsum("bhqk,bhkd->bhqd", ds, k),
                ops.einsum("bhqk,bhqd->bhkd", ds, q),
                dv,
            )

        return ops.einsum("bhqk,bhke->bhqe", p, v), grad

    return _attend(q, k, v)


@ops.custom_gradient
def swiglu(x, w_gate, w_up):
    """`silu(x @ w_gate) * (x @ w_up)`

    x: (..., features), w_gate and w_up: (features, hidden).
    """
    gate = ops.matmul(x, w_gate)
    up = ops.matmul(x, w_up)
    sig = ops.sigmoid(gate)
    act = gate * sig

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_act = upstream * act
        d_lin = upstream * up * sig * (1.0 + gate * (1.0 - sig))
        rows = ops.transpose(ops.reshape(x, (-1, x.shape[-1])))
        hidden = w_gate.shape[-1]
        dx = ops.matmul(d_lin, ops.transpose(w_gate)) + ops.matmul(d_act, ops.transpose(w_up))
        return (
            dx,
            ops.matmul(rows, ops.reshape(d_act, (-1, hidden))),
            ops.matmul(rows, ops.reshape(d_lin, (-1, hidden))),
        )

    return act * up, grad


class FeedForward(keras.layers.Layer):
    """Gated feed-forward block of a transformer."""

    def __init__(self, hidden, **kwargs):
        super().__init__(**kwargs)
        self.hidden = hidden

    def build(self, input_shape):
        dim = input_shape[-1]
        self.w_gate = self.add_weight(shape=(dim, self.hidden), name="w_gate")
        self.w_up = self.add_weight(shape=(dim, self.hidden), name="w_up")
        self.w_down = self.add_weight(shape=(self.hidden, dim), name="w_down")

    def call(self, x):
        h = swiglu(x, 1.0 * self.w_gate, 1.0 * self.w_up)
        return ops.matmul(h, self.w_down)


@ops.custom_gradient
def gru_cell(x, h, kernel, recurrent, bias):
    # order of the gates: update, reset, candidate (reset applied after the matmul)
    gx = ops.matmul(x, kernel) + bias
    gh = ops.matmul(h, recurrent)
    xz, xr, xn = ops.split(gx, 3, axis=-1)
    hz, hr, hn = ops.split(gh, 3, axis=-1)
    z = ops.sigmoid(xz + hz)
    r = ops.sigmoid(xr + hr)
    n = ops.tanh(xn + r * hn)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        dn = upstream * (1.0 - z) * (1.0 - n * n)
        dz = upstream * (h - n) * z * (1.0 - z)
        dr = dn * hn * r * (1.0 - r)
        dgx = ops.concatenate([dz, dr, dn], axis=-1)
        dgh = ops.concatenate([dz, dr, dn * r], axis=-1)
        return (
            ops.matmul(dgx, ops.transpose(kernel)),
            upstream * z + ops.matmul(dgh, ops.transpose(recurrent)),
            ops.matmul(ops.transpose(x), dgx),
            ops.matmul(ops.transpose(h), dgh),
            ops.sum(dgx, axis=0),
        )

    return z * h + (1.0 - z) * n, grad


def causal_conv1d(x, kernel, dilation=1):
    """Causal (left padded) dilated convolution, as in WaveNet.

    Args:
        x: `(batch, time, channels)`.
        kernel: `(taps, channels, filters)`, the last tap sees the present.
        dilation: distance of the taps.

    Returns:
        `(batch, time, filters)`.
    """
    x = ops.convert_to_tensor(x)
    kernel = ops.convert_to_tensor(kernel)
    time = x.shape[1]
    taps = kernel.shape[0]
    reach = (taps - 1) * dilation

    @ops.custom_gradient
    def _conv(x, kernel):
        xp = ops.pad(x, [[0, 0], [reach, 0], [0, 0]])
        y = 0.0
        for j in range(taps):
            lo = j * dilation
            y = y + ops.einsum("btc,cf->btf", xp[:, lo : lo + time], kernel[j])

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            up = ops.pad(upstream, [[0, 0], [0, reach], [0, 0]])
            dx = 0.0
            dk = []
            for j in range(taps):
                lo = reach - j * dilation
                dx = dx + ops.einsum("btf,cf->btc", up[:, lo : lo + time], kernel[j])
                dk.append(ops.einsum("btc,btf->cf", xp[:, j : j + time], upstream))
            return dx, ops.stack(dk, axis=0)

        return y, grad

    return _conv(x, kernel)


def _swish_slope(t):
    s = ops.sigmoid(t)
    return s * (1.0 + t * (1.0 - s))


def layer_norm_swish(x, gamma, beta, epsilon=1e-6):
    """swish(layer_norm(x)), fused.

    Args:
        x: `(batch, features)` or `(batch, time, features)`
        gamma, beta: `(features,)`
    """

    @ops.custom_gradient
    def _fused(x, gamma, beta):
        mean = ops.mean(x, axis=-1, keepdims=True)
        inv = ops.rsqrt(ops.mean((x - mean) ** 2, axis=-1, keepdims=True) + epsilon)
        xhat = (x - mean) * inv
        a = xhat * gamma + beta

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            da = upstream * _swish_slope(xhat)
            width = x.shape[-1]
            dgamma = ops.sum(ops.reshape(da * xhat, (-1, width)), axis=0)
            dbeta = ops.sum(ops.reshape(da, (-1, width)), axis=0)
            g = da * gamma
            dx = inv * (
                g
                - ops.mean(g, axis=-1, keepdims=True)
                - xhat * ops.mean(g * xhat, axis=-1, keepdims=True)
            )
            return dx, dgamma, dbeta

        return a * ops.sigmoid(a), grad

    return _fused(*(ops.convert_to_tensor(t) for t in (x, gamma, beta)))


if __name__ == "__main__":
    seq = keras.random.normal((2, 7, 4))
    print(ChannelPReLU()(seq).shape, FeedForward(8)(seq).shape)
    print(masked_mean_pool(seq, [3, 7]).shape)
    print(causal_conv1d(seq, keras.random.normal((3, 4, 5)), dilation=2).shape)
