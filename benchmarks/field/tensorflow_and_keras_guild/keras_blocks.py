"""Backend-agnostic Keras blocks with fused gradients."""

import keras
from keras import ops


def _upstream(args, upstream):
    if upstream is None:
        (upstream,) = args
    return upstream


def instance_standardize(x, gamma, beta, data_format="channels_last", epsilon=1e-5):
    """Instance normalization of a batch of images, sequences or volumes.

    Args:
        x: Tensor of rank three or more.
        gamma: Scale, shape `(channels,)`.
        beta: Offset, shape `(channels,)`.
        data_format: `"channels_last"` or `"channels_first"`.
        epsilon: Small constant below the root.

    Returns:
        A tensor of the shape of `x`.
    """
    x = ops.convert_to_tensor(x)
    gamma = ops.convert_to_tensor(gamma)
    beta = ops.convert_to_tensor(beta)
    rank = len(x.shape)
    channel = rank - 1 if data_format == "channels_last" else 1
    spatial = tuple(i for i in range(1, rank) if i != channel)
    others = (0,) + spatial
    shape = [1] * rank
    shape[channel] = -1

    @ops.custom_gradient
    def run(x, gamma, beta):
        mean = ops.mean(x, axis=spatial, keepdims=True)
        centred = x - mean
        var = ops.mean(ops.square(centred), axis=spatial, keepdims=True)
        inv = 1.0 / ops.sqrt(var + epsilon)
        unit = centred * inv
        scale = ops.reshape(gamma, shape)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_unit = g * scale
            along = ops.mean(d_unit * unit, axis=spatial, keepdims=True)
            d_x = inv * (d_unit - ops.mean(d_unit, axis=spatial, keepdims=True) - unit * along)
            return d_x, ops.sum(g * unit, axis=others), ops.sum(g, axis=others)

        return unit * scale + ops.reshape(beta, shape), grad

    return run(x, gamma, beta)


def lora_projection(x, kernel, lora_a, lora_b, alpha=None):
    x = ops.convert_to_tensor(x)
    kernel = ops.convert_to_tensor(kernel)
    lora_a = ops.convert_to_tensor(lora_a)
    lora_b = ops.convert_to_tensor(lora_b)
    rank = lora_a.shape[-1]
    scaling = 1.0 if alpha is None else alpha / rank

    @ops.custom_gradient
    def project(x, kernel, lora_a, lora_b):
        down = ops.matmul(x, lora_a)
        out = ops.matmul(x, kernel) + scaling * ops.matmul(down, lora_b)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            rows = ops.reshape(x, (-1, x.shape[-1]))
            g_rows = ops.reshape(g, (-1, g.shape[-1]))
            down_rows = ops.reshape(down, (-1, rank))
            back = ops.matmul(g_rows, ops.transpose(lora_b))
            d_x = ops.matmul(g_rows, ops.transpose(kernel))
            d_x = d_x + scaling * ops.matmul(back, ops.transpose(lora_a))
            d_kernel = ops.matmul(ops.transpose(rows), g_rows)
            d_a = ops.matmul(ops.transpose(rows), back)
            d_b = scaling * ops.matmul(ops.transpose(down_rows), g_rows)
            return ops.reshape(d_x, ops.shape(x)), d_kernel, d_a, d_b

        return out, grad

    return project(x, kernel, lora_a, lora_b)


class LoraDense(keras.layers.Layer):
    """Dense layer with a low-rank update."""

    def __init__(self, units, rank=4, alpha=None, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.rank = rank
        self.alpha = alpha

    def build(self, input_shape):
        width = input_shape[-1]
        self.kernel = self.add_weight(shape=(width, self.units), name="kernel")
        self.lora_a = self.add_weight(shape=(width, self.rank), name="lora_a")
        self.lora_b = self.add_weight(
            shape=(self.rank, self.units), initializer="zeros", name="lora_b"
        )

    def call(self, inputs):
        kernel, lora_a, lora_b = (ops.copy(w) for w in (self.kernel, self.lora_a, self.lora_b))
        return lora_projection(inputs, kernel, lora_a, lora_b, self.alpha)


def poly1_cross_entropy(targets, logits, epsilon=1.0, label_smoothing=0.0):
    """Poly-1 loss of each sample, `CE + epsilon * (1 - p_t)`.

    :param targets: class probabilities, shape ``(..., classes)``.
    :param logits: unnormalized scores of the same shape.
    :param epsilon: weight of the linear term.
    :param label_smoothing: mass that is spread evenly over the classes.
    :returns: losses of shape ``(...)``.
    """
    targets = ops.convert_to_tensor(targets)
    logits = ops.convert_to_tensor(logits)

    @ops.custom_gradient
    def loss(targets, logits):
        keep = 1.0 - label_smoothing
        y = keep * targets + label_smoothing / targets.shape[-1]
        log_p = ops.log_softmax(logits, axis=-1)
        p = ops.exp(log_p)
        value = epsilon - ops.sum(y * (log_p + epsilon * p), axis=-1)

        def grad(*args, upstream=None):
            g = ops.expand_dims(_upstream(args, upstream), -1)
            mass = ops.sum(y, axis=-1, keepdims=True)
            d_logits = mass * p - y - epsilon * p * y
            d_targets = -keep * (log_p + epsilon * p)
            return g * d_targets, g * d_logits

        return value, grad

    return loss(targets, logits)


def make_power_of_two_quantizer(min_exponent: int = -8, max_exponent: int = 0):
    """Builds a quantizer to signed powers of two with a straight-through gradient.

    Values are rounded in the log domain to `±2**e` with
    `min_exponent <= e <= max_exponent`; magnitudes below `2**(min_exponent - 1)`
    become zero. The backward pass is a straight-through estimator: the
    incoming gradient is kept where `|x| <= 2**max_exponent` and dropped elsewhere.
    """
    top = 2.0**max_exponent
    floor = 2.0 ** (min_exponent - 1)

    @ops.custom_gradient
    def quantize(x):
        magnitude = ops.abs(x)
        exponent = ops.round(ops.log2(ops.maximum(magnitude, floor)))
        exponent = ops.clip(exponent, min_exponent, max_exponent)
        level = ops.power(ops.cast(2.0, x.dtype), exponent)
        level = ops.where(magnitude < floor, ops.zeros_like(level), level)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            return ops.where(magnitude <= top, g, ops.zeros_like(g))

        return ops.sign(x) * level, grad

    return lambda x: quantize(ops.convert_to_tensor(x))
