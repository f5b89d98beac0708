"""Losses, layers and graph operations on `keras.ops`."""

import keras
import numpy as np
from keras import ops


def _upstream(args, upstream):
    if upstream is None:
        (upstream,) = args
    return upstream


def generalized_cross_entropy(
    logits,
    labels,
    sample_weight=None,
    *,
    q=0.7,
    reduction="sum_over_batch_size",
):
    """Noise-tolerant cross entropy, `(1 - p[label] ** q) / q`.

    Args:
        logits: Tensor of shape `(..., classes)`.
        labels: Integer tensor of shape `(...)`.
        sample_weight: Optional tensor of the shape of `labels`.
        q: Float in `(0, 1]`; towards 0 the loss becomes the cross entropy,
            at 1 the mean absolute error.
        reduction: `"none"`, `"sum"`, `"sum_over_batch_size"` (the weighted
            sum over the number of samples) or `"mean_with_sample_weight"`
            (the weighted sum over the sum of the weights).

    Returns:
        A tensor of the shape of `labels` for `"none"`, otherwise a scalar.
    """
    if reduction not in ("none", "sum", "sum_over_batch_size", "mean_with_sample_weight"):
        raise ValueError(f"Unknown reduction: {reduction}")
    logits = ops.convert_to_tensor(logits)
    labels = ops.convert_to_tensor(labels)
    if sample_weight is None:
        sample_weight = ops.ones(ops.shape(labels), dtype=logits.dtype)
    sample_weight = ops.cast(sample_weight, logits.dtype)

    @ops.custom_gradient
    def weighted_loss(logits, weight):
        onehot = ops.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
        log_probs = ops.log_softmax(logits, axis=-1)
        log_p = ops.sum(onehot * log_probs, axis=-1)
        p_q = ops.exp(q * log_p)
        per_sample = -ops.expm1(q * log_p) / q
        count = ops.cast(ops.size(per_sample), logits.dtype)
        total = ops.sum(weight * per_sample)
        if reduction == "none":
            value = weight * per_sample
        elif reduction == "sum":
            value = total
        elif reduction == "sum_over_batch_size":
            value = total / count
        else:
            value = total / ops.sum(weight)

        def grad(*args, upstream=None):
            dy = _upstream(args, upstream)
            dweight = per_sample
            if reduction == "mean_with_sample_weight":
                dweight = (per_sample - value) / ops.sum(weight)
            elif reduction == "sum_over_batch_size":
                dweight = per_sample / count
            scale = dy * weight * p_q
            if reduction in ("sum_over_batch_size", "mean_with_sample_weight"):
                scale = scale / count
            dlogits = scale[..., None] * (ops.exp(log_probs) - onehot)
            return dlogits, dy * dweight

        return value, grad

    return weighted_loss(logits, sample_weight)


def gcn_propagate(features, senders, receivers, edge_weight):
    num_nodes = features.shape[0]

    def scatter(values, ids):
        return ops.segment_sum(values, ids, num_segments=num_nodes)

    def mix(x, weight, inv_root):
        src = ops.take(inv_root, senders, axis=0)
        dst = ops.take(inv_root, receivers, axis=0)
        messages = (weight * src * dst)[:, None] * ops.take(x, senders, axis=0)
        return scatter(messages, receivers) + (inv_root**2)[:, None] * x

    @ops.custom_gradient
    def propagate(x, weight):
        degree = 1.0 + scatter(weight, receivers)
        inv_root = ops.rsqrt(degree)
        out = mix(x, weight, inv_root)

        def grad(*args, upstream=None):
            dout = _upstream(args, upstream)
            src = ops.take(inv_root, senders, axis=0)
            dst = ops.take(inv_root, receivers, axis=0)
            dcoef = ops.sum(
                ops.take(dout, receivers, axis=0) * ops.take(x, senders, axis=0), axis=-1
            )
            dinv_root = (
                scatter(dcoef * weight * dst, senders)
                + scatter(dcoef * weight * src, receivers)
                + 2.0 * inv_root * ops.sum(dout * x, axis=-1)
            )
            ddegree = -0.5 * dinv_root * inv_root / degree
            dweight = dcoef * src * dst + ops.take(ddegree, receivers, axis=0)
            return mix(dout, weight, inv_root), dweight

        return out, grad

    return propagate(features, edge_weight)


def _binomial(size):
    row = np.array([1.0])
    for _ in range(size - 1):
        row = np.convolve(row, [0.5, 0.5])
    return np.outer(row, row)


def blur_pool_2d(images, filter_size=3, strides=2, border="zeros"):
    """Smooths with a binomial filter and subsamples, channel by channel.

    :param images: tensor of shape ``(batch, height, width, channels)``
    :param filter_size: length of the filter's sides, 1 or more
    :param strides: step of the subsampling, the same in both directions
    :param border: ``"zeros"`` or ``"edge"``, what lies beyond the image
    :returns: tensor of shape ``(batch, ceil(height / strides),
        ceil(width / strides), channels)``
    """
    images = ops.convert_to_tensor(images)
    _, height, width, channels = images.shape
    before = (filter_size - 1) // 2
    after = filter_size - 1 - before
    pad_mode = {"zeros": "constant", "edge": "edge"}[border]
    kernel = ops.convert_to_tensor(_binomial(filter_size)[:, :, None, None], dtype=images.dtype)

    def split(x):
        x = ops.transpose(x, (0, 3, 1, 2))
        return ops.reshape(x, (-1, x.shape[2], x.shape[3], 1))

    def join(x):
        x = ops.reshape(x, (-1, channels, x.shape[1], x.shape[2]))
        return ops.transpose(x, (0, 2, 3, 1))

    def extend(x):
        for axis in (1, 2):
            size = x.shape[axis]
            ids = np.arange(-before, size + after)
            rows = ops.take(x, np.clip(ids, 0, size - 1), axis=axis)
            if pad_mode == "constant":
                shape = [1] * 4
                shape[axis] = len(ids)
                inside = ((ids >= 0) & (ids < size)).reshape(shape)
                rows = rows * ops.cast(inside, x.dtype)
            x = rows
        return x

    def fold(g, axis, size):
        g = ops.moveaxis(g, axis, 0)
        middle = g[before : before + size]
        if pad_mode == "edge":
            first = ops.sum(g[:before], axis=0, keepdims=True)
            last = ops.sum(g[before + size :], axis=0, keepdims=True)
            spread = [(0, 0)] * (len(g.shape) - 1)
            middle = middle + ops.pad(first, [(0, size - 1)] + spread)
            middle = middle + ops.pad(last, [(size - 1, 0)] + spread)
        return ops.moveaxis(middle, 0, axis)

    @ops.custom_gradient
    def pool(x):
        padded = extend(split(x))
        out = join(ops.conv(padded, kernel, strides=strides, padding="valid"))

        def grad(*args, upstream=None):
            dout = split(_upstream(args, upstream))
            step = np.zeros((dout.shape[1], strides), bool)
            step[:, 0] = True
            cols = np.zeros((dout.shape[2], strides), bool)
            cols[:, 0] = True
            sparse = ops.repeat(ops.repeat(dout, strides, axis=1), strides, axis=2)
            keep = step.reshape(1, -1, 1, 1) & cols.reshape(1, 1, -1, 1)
            sparse = (sparse * ops.cast(keep, dout.dtype))[:, :height, :width]
            rim = filter_size - 1
            sparse = ops.pad(sparse, [(0, 0), (rim, rim), (rim, rim), (0, 0)])
            g = ops.conv(sparse, ops.flip(kernel, (0, 1)), strides=1, padding="valid")
            return join(fold(fold(g, 1, height), 2, width))

        return out, grad

    return pool(images)


class QuantizedHeadProjection(keras.layers.Layer):
    """Projection to attention heads with a frozen int8 kernel.

    Args:
        num_heads: Number of heads.
        key_dim: Size of each head.
    """

    def __init__(self, num_heads, key_dim, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim

    def build(self, input_shape):
        shape = (input_shape[-1], self.num_heads, self.key_dim)
        self._kernel = self.add_weight(
            name="kernel", shape=shape, initializer="zeros", dtype="int8", trainable=False
        )
        self.kernel_scale = self.add_weight(
            name="kernel_scale", shape=shape[1:], initializer="ones", trainable=False
        )

    def load_kernel(self, kernel):
        """Quantizes a float kernel `(features, num_heads, key_dim)`, one scale a column."""
        kernel = np.asarray(kernel)
        if not self.built:
            self.build((None, kernel.shape[0]))
        scale = 127.0 / np.maximum(np.abs(kernel).max(axis=0), 1e-7)
        self._kernel.assign(np.clip(np.round(kernel * scale), -127, 127).astype("int8"))
        self.kernel_scale.assign(scale)

    def project(self, inputs):
        """Projects `(batch, time, features)` inputs, quantized row by row.

        The rounding of the inputs passes gradients straight through: they get
        the gradient of the product with the dequantized kernel. The kernel and
        its scale are frozen and get none.
        """

        @ops.custom_gradient
        def einsum_with_inputs_gradient(inputs, kernel, kernel_scale):
            peak = ops.max(ops.abs(inputs), axis=-1, keepdims=True)
            inputs_scale = 127.0 / ops.maximum(peak, 1e-7)
            rounded = ops.clip(ops.round(inputs * inputs_scale), -127.0, 127.0)
            out = ops.einsum("btd,dhk->bthk", rounded, ops.cast(kernel, inputs.dtype))
            out = out / (inputs_scale[..., None] * kernel_scale)

            def grad(*args, upstream=None):
                dy = _upstream(args, upstream)
                float_kernel = ops.cast(kernel, dy.dtype) / kernel_scale
                return ops.einsum("bthk,dhk->btd", dy, float_kernel), None, None

            return out, grad

        return einsum_with_inputs_gradient(
            inputs,
            ops.convert_to_tensor(self._kernel),
            ops.cast(ops.convert_to_tensor(self.kernel_scale), inputs.dtype),
        )

    def call(self, inputs):
        return self.project(inputs)
