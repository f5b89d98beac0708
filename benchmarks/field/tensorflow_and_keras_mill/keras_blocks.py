"""Backend-agnostic Keras operations and the layer around them."""

import keras
from keras import ops


def scaled_softplus(x, beta):
    """Softplus with a sharpness learned for each channel.

    Args:
        x: Tensor of shape `(..., channels)`.
        beta: Positive tensor of shape `(channels,)`.

    Returns:
        `softplus(beta * x) / beta`.
    """

    @ops.custom_gradient
    def forward(x, beta):
        z = x * beta
        out = ops.softplus(z) / beta

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            gate = ops.sigmoid(z)
            d_beta = upstream * (gate * x - out) / beta
            axes = tuple(range(len(x.shape) - 1))
            return upstream * gate, ops.sum(d_beta, axis=axes) if axes else d_beta

        return out, grad

    return forward(x, beta)


def weight_norm_kernel(v, g, epsilon=1e-12):
    """Reparameterised kernel `g * v / ||v||`, one norm for each output channel.

    Args:
        v: Kernel of a dense or convolutional layer, output channels last.
        g: Lengths, of shape `(channels,)`.
        epsilon: Added to the squared norm.
    """

    @ops.custom_gradient
    def normalize(v, g):
        axes = tuple(range(len(v.shape) - 1))
        inv = ops.rsqrt(ops.sum(ops.square(v), axis=axes) + epsilon)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            along = upstream * v
            d_g = ops.sum(along, axis=axes) * inv
            radial = ops.sum(along, axis=0, keepdims=True) * ops.square(inv)
            d_v = (g * inv) * (upstream - v * radial)
            return d_v, d_g

        return v * (g * inv), grad

    return normalize(v, g)


def dilated_causal_conv1d(inputs, kernel, dilation=1):
    @ops.custom_gradient
    def conv(x, w):
        taps, length = w.shape[0], x.shape[1]
        reach = (taps - 1) * dilation
        padded = ops.pad(x, [[0, 0], [reach, 0], [0, 0]])
        out = 0.0
        for i in range(taps):
            start = i * dilation
            out = out + ops.einsum("btc,co->bto", padded[:, start : start + length], w[i])

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            ahead = ops.pad(upstream, [[0, 0], [0, reach], [0, 0]])
            d_x = 0.0
            d_w = []
            for i in range(taps):
                shift = reach - i * dilation
                d_x = d_x + ops.einsum("bto,co->btc", ahead[:, shift : shift + length], w[i])
                d_w.append(ops.einsum("btc,bto->co", padded[:, i : i + length], upstream))
            return d_x, ops.stack(d_w)

        return out, grad

    return conv(inputs, kernel)


def asymmetric_multilabel_loss(
    y_true, logits, gamma_pos=0.0, gamma_neg=4.0, clip=0.0, reduction="mean"
):
    """Asymmetric loss for multi-label classification.

    Args:
        y_true: Multi-hot targets, same shape as `logits`.
        logits: Tensor of scores.
        gamma_pos: Focusing exponent of the positives.
        gamma_neg: Focusing exponent of the negatives.
        clip: Probability margin of the negatives: a negative counts with
            `max(p - clip, 0)` in place of `p`.
        reduction: `"mean"`, `"sum"` or `"none"`.
    """
    y_true = ops.cast(y_true, logits.dtype)

    @ops.custom_gradient
    def loss_fn(z):
        p = ops.sigmoid(z)
        log_p = ops.log_sigmoid(z)
        shifted = ops.maximum(p - clip, 0.0)
        log_rest = ops.log1p(-shifted) if clip > 0.0 else ops.log_sigmoid(-z)
        focus_pos = ops.power(1.0 - p, gamma_pos)
        focus_neg = ops.power(shifted, gamma_neg)
        loss = -(y_true * focus_pos * log_p + (1.0 - y_true) * focus_neg * log_rest)
        count = 1
        for size in loss.shape:
            count *= size

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            if reduction == "mean":
                upstream = upstream / count
            d_pos = focus_pos * (gamma_pos * p * log_p - (1.0 - p))
            d_neg = focus_neg * (shifted - gamma_neg * (1.0 - shifted) * log_rest)
            return upstream * (y_true * d_pos + (1.0 - y_true) * d_neg)

        if reduction == "mean":
            return ops.mean(loss), grad
        if reduction == "sum":
            return ops.sum(loss), grad
        return loss, grad

    return loss_fn(logits)


def soft_argmax_2d(heatmap, temperature=1.0, *, normalized=True):
    """Expected position under a spatial softmax.

    Args:
        heatmap: Tensor of shape `(batch, height, width, keypoints)`.
        temperature: Divides the heatmap before the softmax.
        normalized: Positions from -1 to 1 if true, in pixels otherwise.

    Returns:
        Tensor of shape `(batch, keypoints, 2)`, the x coordinate first.
    """
    height, width = heatmap.shape[1], heatmap.shape[2]
    if normalized:
        ys = ops.linspace(-1.0, 1.0, height, dtype=heatmap.dtype)
        xs = ops.linspace(-1.0, 1.0, width, dtype=heatmap.dtype)
    else:
        ys = ops.arange(height, dtype=heatmap.dtype)
        xs = ops.arange(width, dtype=heatmap.dtype)
    ys = ops.reshape(ys, (1, height, 1, 1))
    xs = ops.reshape(xs, (1, 1, width, 1))

    @ops.custom_gradient
    def locate(h):
        e = ops.exp((h - ops.max(h, axis=(1, 2), keepdims=True)) / temperature)
        p = e / ops.sum(e, axis=(1, 2), keepdims=True)
        mean_x = ops.sum(p * xs, axis=(1, 2), keepdims=True)
        mean_y = ops.sum(p * ys, axis=(1, 2), keepdims=True)
        out = ops.stack([mean_x[:, 0, 0], mean_y[:, 0, 0]], axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g_x = upstream[:, None, None, :, 0]
            g_y = upstream[:, None, None, :, 1]
            return p * ((xs - mean_x) * g_x + (ys - mean_y) * g_y) / temperature

        return out, grad

    return locate(heatmap)


class SoftArgmax2D(keras.layers.Layer):
    def __init__(self, temperature=1.0, normalized=True, **kwargs):
        super().__init__(**kwargs)
        self.temperature = temperature
        self.normalized = normalized

    def call(self, inputs):
        return soft_argmax_2d(inputs, self.temperature, normalized=self.normalized)
