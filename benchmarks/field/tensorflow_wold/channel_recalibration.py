"""Channel recalibration gates for image backbones, for every Keras backend.

Feature maps are channels-last, ``(batch, height, width, channels)``.  The gates keep only the pooled statistics for the
backward pass, which is why they come with their own gradients.
"""

import keras
from keras import ops


def _sigmoid_slope(gate):
    return gate * (1.0 - gate)


@keras.ops.custom_gradient
def simam_gate(x, lam):
    """Parameter-free attention of SimAM.

    Every unit is weighted by the sigmoid of its inverse energy, ``d / (4 (v + lam)) + 1/2``, in which ``d`` is the
    squared deviation from the channel's spatial mean and ``v`` the channel's unbiased variance.

    Args:
        x: feature maps of shape (batch, height, width, channels).
        lam: scalar tensor, the regulariser of the energy.

    Returns:
        The weighted maps, of the shape of ``x``.
    """
    area = x.shape[1] * x.shape[2]
    free = area - 1
    dev = x - ops.sum(x, axis=(1, 2), keepdims=True) / area
    sq = ops.square(dev)
    scale = ops.sum(sq, axis=(1, 2), keepdims=True) / free + lam
    gate = ops.sigmoid(sq / (4.0 * scale) + 0.5)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_energy = upstream * x * _sigmoid_slope(gate)
        d_scale = -ops.sum(d_energy * sq, axis=(1, 2), keepdims=True) / (4.0 * ops.square(scale))
        d_sq = d_energy / (4.0 * scale) + d_scale / free
        dx = upstream * gate + 2.0 * dev * d_sq
        return dx, ops.sum(d_scale)

    return x * gate, grad


def make_eca_gate(padding="zero"):
    """Efficient channel attention: a 1-D filter across the pooled channels.

    ``padding`` is "zero", or "circular" where the channels are ordered on a ring (orientation or hue channels).
    """
    if padding not in ("zero", "circular"):
        raise ValueError(f"unknown padding {padding!r}")

    @keras.ops.custom_gradient
    def eca_gate(x, taps):
        """x: (batch, height, width, channels); taps: (k,) with k odd and k // 2 <= channels."""
        channels, k = x.shape[-1], taps.shape[0]
        r = k // 2
        area = x.shape[1] * x.shape[2]
        pooled = ops.sum(x, axis=(1, 2)) / area
        if padding == "circular":
            padded = ops.concatenate([pooled[:, channels - r :], pooled, pooled[:, :r]], axis=1)
        else:
            padded = ops.pad(pooled, ((0, 0), (r, r)))
        windows = ops.stack([padded[:, j : j + channels] for j in range(k)], axis=-1)
        gate = ops.sigmoid(ops.sum(windows * taps, axis=-1))
        wide = gate[:, None, None, :]

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dz = ops.sum(upstream * x, axis=(1, 2)) * _sigmoid_slope(gate)
            d_taps = ops.sum(windows * dz[:, :, None], axis=(0, 1))
            d_padded = sum(ops.pad(dz * taps[j], ((0, 0), (j, k - 1 - j))) for j in range(k))
            d_pooled = d_padded[:, r : r + channels]
            if padding == "circular":
                rest = ((0, 0), (0, channels - r))
                d_pooled = d_pooled + ops.pad(d_padded[:, r + channels :], rest)
                d_pooled = d_pooled + ops.pad(d_padded[:, :r], (rest[0], rest[1][::-1]))
            return upstream * wide + d_pooled[:, None, None, :] / area, d_taps

        return x * wide, grad

    return eca_gate


def make_style_gate(valid=None, eps=1e-5):
    """Style-based recalibration.

    Parameters
    ----------
    valid : array (batch, height, width), optional
        Ones at pixels of the picture, zeros at the filling of a letterboxed batch.  The style of a channel is taken
        from the pixels of the picture; the gate is applied everywhere.
    eps : float
        Added to the variance.
    """

    @keras.ops.custom_gradient
    def style_gate(x, mix, bias):
        """x: (batch, height, width, channels); mix: (channels, 2) for mean and deviation; bias: (channels,)."""
        if valid is None:
            inside = ops.ones_like(x[..., :1])
        else:
            inside = ops.cast(ops.convert_to_tensor(valid), x.dtype)[..., None]
        count = ops.maximum(ops.sum(inside, axis=(1, 2), keepdims=True), 1.0)
        mean = ops.sum(x * inside, axis=(1, 2), keepdims=True) / count
        centred = (x - mean) * inside
        std = ops.sqrt(ops.sum(ops.square(centred), axis=(1, 2), keepdims=True) / count + eps)
        gate = ops.sigmoid(mix[:, 0] * mean + mix[:, 1] * std + bias)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dz = ops.sum(upstream * x, axis=(1, 2), keepdims=True) * _sigmoid_slope(gate)
            d_mix = ops.stack(
                [ops.sum(dz * mean, axis=(0, 1, 2)), ops.sum(dz * std, axis=(0, 1, 2))], axis=-1
            )
            d_mean = dz * mix[:, 0]
            d_std = dz * mix[:, 1]
            dx = upstream * gate + (d_mean + d_std * centred / std) / count
            return dx, d_mix, ops.sum(dz, axis=(0, 1, 2))

        return x * gate, grad

    return style_gate


class StyleRecalibration(keras.layers.Layer):
    """Layer around :func:`make_style_gate`; call it with the maps and, if the batch is letterboxed, the pixel mask."""

    def __init__(self, eps=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.eps = eps

    def build(self, input_shape):
        channels = input_shape[-1]
        self.mix = self.add_weight(shape=(channels, 2), initializer="glorot_uniform", name="mix")
        self.bias = self.add_weight(shape=(channels,), initializer="zeros", name="bias")

    def call(self, x, valid=None):
        gate = make_style_gate(valid, self.eps)
        return gate(x, 1.0 * self.mix, 1.0 * self.bias)  # tensors: the rule must not see variables


class EfficientChannelAttention(keras.layers.Layer):
    def __init__(self, kernel_size=3, padding="zero", **kwargs):
        super().__init__(**kwargs)
        self.kernel_size = kernel_size
        self._gate = make_eca_gate(padding)

    def build(self, input_shape):
        self.taps = self.add_weight(
            shape=(self.kernel_size,), initializer="random_normal", name="taps"
        )

    def call(self, x):
        return self._gate(x, 1.0 * self.taps)
