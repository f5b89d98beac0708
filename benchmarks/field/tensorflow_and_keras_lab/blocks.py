"""Building blocks of the encoder: attention, convolution, pooling, recurrent cell, dense."""
import math

import tensorflow as tf


def attention(q, k, v, causal=False):
    """Scaled dot-product attention that does not store the attention matrix.

    Args:
        q: `[batch, heads, time, depth]`.
        k: `[batch, heads, time, depth]`.
        v: `[batch, heads, time, depth_v]`.
        causal: if True a position sees itself and earlier positions only.

    Returns:
        `[batch, heads, time, depth_v]`.
    """
    q, k, v = (tf.convert_to_tensor(t) for t in (q, k, v))
    scale = 1.0 / math.sqrt(q.shape[-1])

    @tf.custom_gradient
    def _attend(q, k, v):
        scores = tf.matmul(q, k, transpose_b=True) * scale
        if causal:
            ones = tf.ones([q.shape[-2], k.shape[-2]], q.dtype)
            future = ones - tf.linalg.band_part(ones, -1, 0)
            scores -= 1e9 * future
        out = tf.matmul(tf.nn.softmax(scores), v)

        def grad(dout):
            # recomputed here: time x time is too large to keep
            p = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * scale)
            dv = tf.matmul(p, dout, transpose_a=True)
            dp = tf.matmul(dout, v, transpose_b=True)
            ds = p * (dp - tf.reduce_sum(p * dp, axis=-1, keepdims=True)) * scale
            dq = tf.matmul(ds, k)
            dk = tf.matmul(ds, q, transpose_a=True)
            return dq, dk, dv

        return out, grad

    return _attend(q, k, v)


def depthwise_conv(x, filters, stride=1, padding="SAME"):
    """Depthwise 2-D convolution.

    x: NHWC images; filters: (kh, kw, channels, multiplier).
    """
    strides = [1, stride, stride, 1]

    @tf.custom_gradient
    def _conv(x, filters):
        def grad(dy):
            dx = tf.nn.depthwise_conv2d_backprop_input(
                tf.shape(x), filters, dy, strides, padding
            )
            df = tf.nn.depthwise_conv2d_backprop_filter(
                x, tf.shape(filters), dy, strides, padding
            )
            return dx, df

        return tf.nn.depthwise_conv2d(x, filters, strides, padding), grad

    return _conv(tf.convert_to_tensor(x), tf.convert_to_tensor(filters))


def avg_pool1d(x, window, stride=None, padding="SAME"):
    """Average pooling in time, for (batch, time, channels) sequences."""
    stride = stride or window

    @tf.custom_gradient
    def _pool(x):
        b, t, c = x.shape

        def grad(dy):
            box = tf.ones([window, 1, c, 1], x.dtype)
            dx = tf.nn.depthwise_conv2d_backprop_input(
                [b, t, 1, c],
                box,
                dy[:, :, None, :] / window,
                [1, stride, stride, 1],
                padding,
            )
            return tf.squeeze(dx, axis=2)

        return tf.nn.avg_pool1d(x, window, stride, padding), grad

    return _pool(tf.convert_to_tensor(x))


@tf.custom_gradient
def lstm_step(gates, c_prev):
    """Pointwise half of an LSTM cell; returns the pair (h, c)."""
    i, f, g, o = tf.split(gates, 4, axis=-1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    c = f * c_prev + i * g
    tc = tf.tanh(c)
    h = o * tc

    def grad(dh, dc_next):
        dc = dh * o * (1.0 - tc * tc)
        di = dc * g * i * (1.0 - i)
        df = dc * c_prev * f * (1.0 - f)
        dg = dc * i * (1.0 - g * g)
        do = dh * tc * o * (1.0 - o)
        dc_prev = (dc + dc_next) * f
        return tf.concat([di, df, dg, do], axis=-1), dc_prev

    return (h, c), grad


class DenseTanh(tf.Module):
    """`tanh(x @ kernel + bias)` whose backward pass uses the output only."""

    def __init__(self, in_features, out_features, dtype=tf.float32, name=None):
        super().__init__(name=name)
        limit = math.sqrt(6.0 / (in_features + out_features))
        self.kernel = tf.Variable(
            tf.random.uniform([in_features, out_features], -limit, limit, dtype=dtype),
            name="kernel",
        )
        self.bias = tf.Variable(tf.zeros([out_features], dtype), name="bias")

    def __call__(self, x):
        @tf.custom_gradient
        def _apply(x):
            kernel = self.kernel.read_value()
            y = tf.tanh(tf.tensordot(x, kernel, 1) + self.bias)

            def grad(dy, variables=None):
                pre = dy * (1.0 - y * y)
                n_in, n_out = kernel.shape
                flat = tf.reshape(pre, [-1, n_out])
                by_ref = {
                    self.kernel.ref(): tf.matmul(
                        tf.reshape(x, [-1, n_in]), flat, transpose_a=True
                    ),
                    self.bias.ref(): tf.reduce_sum(flat, axis=0),
                }
                dx = tf.tensordot(pre, kernel, [[-1], [1]])
                return dx, [by_ref[v.ref()] for v in variables]

            return y, grad

        return _apply(tf.convert_to_tensor(x))


class LSTM(tf.Module):
    def __init__(self, features, units, name=None):
        super().__init__(name=name)
        self.units = units
        self.w = tf.Variable(tf.random.normal([features + units, 4 * units], stddev=0.1))
        self.b = tf.Variable(tf.zeros([4 * units]))

    def __call__(self, xs):
        batch = xs.shape[0]
        h = tf.zeros([batch, self.units])
        c = tf.zeros([batch, self.units])
        for x in tf.unstack(xs, axis=1):
            h, c = lstm_step(tf.concat([x, h], -1) @ self.w + self.b, c)
        return h
