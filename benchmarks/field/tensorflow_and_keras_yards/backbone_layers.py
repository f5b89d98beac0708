"""Backend-agnostic building blocks with gradients of their own."""

import keras
from keras import ops


def _running_sum(x):
    parts = [x[..., 0]]
    for i in range(1, x.shape[-1]):
        parts.append(parts[-1] + x[..., i])
    return ops.stack(parts, axis=-1)


def entmax15(logits, axis=-1):
    """1.5-entmax: a sparse relative of softmax.

    Args:
        logits: Float tensor of any rank.
        axis: Axis along which the probabilities sum to one.

    Returns:
        Tensor of the shape of `logits`.
    """

    @ops.custom_gradient
    def _entmax15(logits):
        dtype = keras.backend.standardize_dtype(logits.dtype)
        z = ops.moveaxis(logits, axis, -1)
        z = (z - ops.max(z, axis=-1, keepdims=True)) / 2
        ordered = ops.flip(ops.sort(z, axis=-1), axis=-1)
        count = ops.cast(ops.arange(1, z.shape[-1] + 1), dtype)
        mean = _running_sum(ordered) / count
        mean_sq = _running_sum(ops.square(ordered)) / count
        delta = 1 / count - (mean_sq - ops.square(mean))
        tau = mean - ops.sqrt(ops.relu(delta))
        support = ops.sum(ops.cast(tau <= ordered, "int32"), axis=-1, keepdims=True)
        threshold = ops.take_along_axis(tau, support - 1, axis=-1)
        root = ops.moveaxis(ops.relu(z - threshold), -1, axis)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            weighted = root * upstream
            shift = ops.sum(weighted, axis=axis, keepdims=True) / ops.sum(
                root, axis=axis, keepdims=True
            )
            return weighted - root * shift

        return ops.square(root), grad

    return _entmax15(ops.convert_to_tensor(logits))


def gumbel_one_hot(logits, noise, temperature=1.0, axis=-1):
    """Straight-through Gumbel sample: one-hot forward, relaxed backward.

    The value is the one-hot vector of the largest `logits + noise`. The gradient, to both
    arguments, is the one of `softmax((logits + noise) / temperature)` in its place.

    Args:
        logits: Unnormalised log probabilities.
        noise: Gumbel noise of the shape of `logits`, drawn by the caller.
        temperature: Positive float.
        axis: Axis of the classes.

    Returns:
        Tensor of the shape of `logits`, zeros and ones.
    """

    @ops.custom_gradient
    def _sample(logits, noise):
        perturbed = logits + noise
        soft = ops.softmax(perturbed / temperature, axis=axis)
        hard = ops.one_hot(
            ops.argmax(perturbed, axis=axis),
            perturbed.shape[axis],
            axis=axis,
            dtype=keras.backend.standardize_dtype(logits.dtype),
        )

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            inner = ops.sum(upstream * soft, axis=axis, keepdims=True)
            d = soft * (upstream - inner) / temperature
            return d, d

        return hard, grad

    return _sample(ops.convert_to_tensor(logits), ops.convert_to_tensor(noise))


def _channel_window_sum(x, size):
    before = size // 2
    after = size - 1 - before
    channels = x.shape[-1]
    padded = ops.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(before, after)])
    total = padded[..., :channels]
    for start in range(1, size):
        total = total + padded[..., start : start + channels]
    return total


def local_response_norm(x, size=5, alpha=1e-4, beta=0.75, bias=1.0):
    """Normalises each channel by the energy of its neighbours.

    Args:
        x: Tensor with channels last.
        size: Number of neighbouring channels in the sum, itself included. For an even
            number there is one more channel before than after.
        alpha: Weight of the mean square.
        beta: Exponent.
        bias: Added to the weighted mean square.

    Returns:
        `x / (bias + alpha * mean_square) ** beta`.
    """

    @ops.custom_gradient
    def _norm(x):
        energy = bias + (alpha / size) * _channel_window_sum(ops.square(x), size)
        factor = ops.power(energy, -beta)
        out = x * factor

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            cross = _channel_window_sum(upstream * out / energy, size)
            return upstream * factor - (2.0 * alpha * beta / size) * x * cross

        return out, grad

    return _norm(ops.convert_to_tensor(x))


def masked_gated_pool(features, gates, mask=None, eps=1e-6):
    if mask is None:
        mask = ops.ones_like(gates)
    mask = ops.cast(mask, keras.backend.standardize_dtype(features.dtype))

    @ops.custom_gradient
    def _pool(features, gates):
        opened = ops.sigmoid(gates)
        weight = opened * mask
        total = ops.sum(weight, axis=1, keepdims=True) + eps
        pooled = ops.sum(weight[..., None] * features, axis=1) / total

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            share = weight / total
            d_features = share[..., None] * upstream[:, None, :]
            centred = ops.sum(
                upstream[:, None, :] * (features - pooled[:, None, :]), axis=-1
            )
            d_gates = opened * (1.0 - opened) * centred / total
            return d_features, d_gates

        return pooled, grad

    return _pool(features, gates)


@keras.saving.register_keras_serializable(package="backbone")
class GatedPooling(keras.layers.Layer):
    """Pools a sequence `(batch, time, units)` by learned gates, padding left out."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.gate = keras.layers.Dense(1)

    def build(self, input_shape):
        self.gate.build(input_shape)
        super().build(input_shape)

    def call(self, inputs, mask=None):
        return masked_gated_pool(inputs, self.gate(inputs)[..., 0], mask)

    def compute_mask(self, inputs, mask=None):
        return None
