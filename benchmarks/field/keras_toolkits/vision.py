from typing import NamedTuple, Optional, Tuple, Union

import keras
from keras import ops


class FRNParams(NamedTuple):
    gamma: "Float[Tensor, 'channels']"
    beta: "Float[Tensor, 'channels']"
    tau: "Float[Tensor, 'channels']"


def filter_response_norm(
    x, params: FRNParams, *, epsilon: float = 1e-6, data_format: str = "channels_last"
):
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"Unknown data_format: {data_format}")
    x = ops.convert_to_tensor(x)
    if len(x.shape) != 4:
        raise ValueError(f"Expected an input of rank 4, got shape {x.shape}")
    if data_format == "channels_last":
        spatial, broadcast = (1, 2), (1, 1, 1, -1)
    else:
        spatial, broadcast = (2, 3), (1, -1, 1, 1)
    reduce_axes = (0,) + spatial
    params = [ops.reshape(p, broadcast) for p in params]

    @ops.custom_gradient
    def frn(x, gamma, beta, tau):
        power = ops.mean(ops.square(x), axis=spatial, keepdims=True)
        inv = ops.rsqrt(power + epsilon)
        normed = x * inv
        affine = gamma * normed + beta

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            batch, height, width = x.shape[:3]
            zeros = ops.zeros_like(upstream)
            through = ops.where(affine > tau, upstream, zeros)
            d_tau = ops.sum(upstream - through, axis=reduce_axes, keepdims=True)
            d_beta = ops.sum(through, axis=reduce_axes, keepdims=True)
            d_gamma = ops.sum(through * normed, axis=reduce_axes, keepdims=True)
            d_normed = through * gamma
            shared = ops.sum(d_normed * normed, axis=spatial, keepdims=True)
            dx = inv * (d_normed - normed * shared / (height * width))
            return dx, d_gamma, d_beta, d_tau

        return ops.maximum(affine, tau), grad

    return frn(x, *params)


class FilterResponseNormalization(keras.layers.Layer):
    """Filter response normalisation with a thresholded linear unit."""

    def __init__(self, epsilon=1e-6, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.data_format = data_format or keras.config.image_data_format()

    def build(self, input_shape):
        axis = -1 if self.data_format == "channels_last" else 1
        shape = (input_shape[axis],)
        self.gamma = self.add_weight(shape=shape, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=shape, initializer="zeros", name="beta")
        self.tau = self.add_weight(shape=shape, initializer="zeros", name="tau")

    def call(self, inputs):
        params = FRNParams(self.gamma, self.beta, self.tau)
        return filter_response_norm(
            inputs, params, epsilon=self.epsilon, data_format=self.data_format
        )


def _pair(value) -> Tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _window_geometry(size, window, stride, padding):
    """Number of windows and the padding before and after, along one axis."""
    if padding == "valid":
        if size < window:
            raise ValueError(f"Window {window} exceeds input size {size}")
        return (size - window) // stride + 1, 0, 0
    count = -(-size // stride)
    total = max((count - 1) * stride + window - size, 0)
    return count, total // 2, total - total // 2


def soft_pool_2d(
    x,
    pool_size: Union[int, Tuple[int, int]] = 2,
    strides: Optional[Union[int, Tuple[int, int]]] = None,
    padding: str = "valid",
):
    """Exponentially weighted pooling of `(batch, height, width, channels)`.

    Each window yields the average of its entries under their softmax. Entries
    that `padding="same"` adds take no part. `strides` defaults to `pool_size`.
    """
    if padding not in ("valid", "same"):
        raise ValueError(f"Unknown padding: {padding}")
    kh, kw = _pair(pool_size)
    sh, sw = _pair(strides) if strides is not None else (kh, kw)
    x = ops.convert_to_tensor(x)
    height, width = x.shape[1], x.shape[2]
    oh, top, bottom = _window_geometry(height, kh, sh, padding)
    ow, left, right = _window_geometry(width, kw, sw, padding)
    full_h, full_w = height + top + bottom, width + left + right
    span_h, span_w = (oh - 1) * sh + 1, (ow - 1) * sw + 1
    border = ((0, 0), (top, bottom), (left, right), (0, 0))
    offsets = [(i, j) for i in range(kh) for j in range(kw)]

    def unfold(image):
        image = ops.pad(image, border)
        return ops.stack(
            [image[:, i : i + span_h : sh, j : j + span_w : sw, :] for i, j in offsets]
        )

    def place(piece, i, j):
        piece = ops.expand_dims(ops.expand_dims(piece, 3), 2)
        piece = ops.pad(
            piece, ((0, 0), (0, 0), (0, sh - 1), (0, 0), (0, sw - 1), (0, 0))
        )
        piece = ops.reshape(piece, (-1, oh * sh, ow * sw, piece.shape[-1]))
        piece = piece[:, :span_h, :span_w, :]
        below, behind = full_h - i - span_h, full_w - j - span_w
        return ops.pad(piece, ((0, 0), (i, below), (j, behind), (0, 0)))

    def fold(pieces):
        image = sum(place(pieces[k], i, j) for k, (i, j) in enumerate(offsets))
        return image[:, top : top + height, left : left + width, :]

    @ops.custom_gradient
    def pool(image):
        real = unfold(ops.ones_like(image)) > 0
        entries = unfold(image)
        peak = ops.max(
            ops.where(real, entries, ops.full_like(entries, float("-inf"))),
            axis=0,
            keepdims=True,
        )
        entries = ops.where(real, entries, peak)
        raw = ops.where(real, ops.exp(entries - peak), ops.zeros_like(entries))
        share = raw / ops.sum(raw, axis=0, keepdims=True)
        out = ops.sum(share * entries, axis=0)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return fold(upstream * share * (1.0 + entries - out))

        return out, grad

    return pool(x)
