"""Reading and grading postmarks on old covers.

Three differentiable parts used by the Keras model of the sorting bench: a pooling
that stands between mean and maximum, a layer of soft if-then rules, and the loss
for the ordered grade (0 = illegible ... K-1 = socked on the nose).
"""

import keras
from keras import ops


def make_ink_pool(window=2, data_format="channels_last"):
    """Pool blocks of `window` x `window` pixels: mix * max + (1 - mix) * mean.

    Args:
        window: side of the block; height and width must be multiples of it.
        data_format: "channels_last" (batch, height, width, channels) or
            "channels_first" (batch, channels, height, width).

    Returns:
        A function of the images and of `mix`, one number for every channel.
    """
    first = data_format == "channels_first"
    inner = (3, 5) if first else (2, 4)

    @ops.custom_gradient
    def ink_pool(images, mix):
        shape = ops.shape(images)
        if first:
            n, c, h, w = shape
            split = (n, c, h // window, window, w // window, window)
            per_channel = (1, c, 1, 1)
        else:
            n, h, w, c = shape
            split = (n, h // window, window, w // window, window, c)
            per_channel = (1, 1, 1, c)
        blocks = ops.reshape(images, split)
        high = ops.max(blocks, axis=inner, keepdims=True)
        mean = ops.sum(blocks, axis=inner, keepdims=True) / window**2
        top, even = ops.squeeze(high, axis=inner), ops.squeeze(mean, axis=inner)
        share = ops.reshape(mix, per_channel)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            hit = ops.cast(ops.equal(blocks, high), images.dtype)
            hit = hit / ops.sum(hit, axis=inner, keepdims=True)
            to_max = ops.expand_dims(upstream * share, inner)
            to_mean = ops.expand_dims(upstream * (1.0 - share), inner) / window**2
            d_images = ops.reshape(hit * to_max + to_mean, shape)
            rest = (0, 2, 3) if first else (0, 1, 2)
            return d_images, ops.sum(upstream * (top - even), axis=rest)

        return share * top + (1.0 - share) * even, grad

    return ink_pool


def make_rule_strength(tnorm="product"):
    """Normalised firing strengths of Gaussian if-then rules.

    Every rule asks of every feature to lie near its centre. The memberships
    exp(-((x - centre) / width)**2 / 2) are joined by `tnorm`: their "product",
    or their "geometric" mean, which does not sharpen as features are added.
    The strengths of one stamp add up to one.
    """
    if tnorm not in ("product", "geometric"):
        raise ValueError(tnorm)

    @ops.custom_gradient
    def rule_strength(x, centres, widths):
        # x (batch, features); centres and widths (rules, features)
        z = (ops.expand_dims(x, 1) - centres) / widths
        weight = 1.0 if tnorm == "product" else 1.0 / x.shape[-1]
        strength = ops.softmax(-0.5 * weight * ops.sum(z * z, axis=-1), axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            inside = ops.sum(upstream * strength, axis=-1, keepdims=True)
            d_log = ops.expand_dims(strength * (upstream - inside), -1)
            pull = weight * d_log * z / widths
            d_widths = ops.sum(d_log * z * z / widths, axis=0)
            return -ops.sum(pull, axis=1), ops.sum(pull, axis=0), d_widths

        return strength, grad

    return rule_strength


def make_grade_loss(grades, classes):
    """Cross entropy against grades smeared over their neighbours.

    `grades` are integers (batch,), -1 where nobody graded the cover. The target
    of a cover is softmax(-slope * |class - grade|) and the slope is learnt. The
    mean runs over graded covers only; it is zero if there are none.
    """
    grades = ops.convert_to_tensor(grades, dtype="int32")

    @ops.custom_gradient
    def grade_loss(logits, slope):
        dtype = logits.dtype
        graded = ops.cast(grades >= 0, dtype)
        steps = ops.expand_dims(ops.arange(classes, dtype="int32"), 0)
        gap = ops.cast(ops.abs(steps - ops.expand_dims(grades, 1)), dtype)
        target = ops.softmax(-slope * gap, axis=-1)
        log_p = ops.log_softmax(logits, axis=-1)
        weight = graded / ops.maximum(ops.sum(graded), 1.0)
        loss = -ops.sum(weight * ops.sum(target * log_p, axis=-1))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_logits = ops.expand_dims(weight, 1) * (ops.exp(log_p) - target)
            centred = gap - ops.sum(target * gap, axis=-1, keepdims=True)
            d_slope = ops.sum(weight * ops.sum(target * centred * log_p, axis=-1))
            return upstream * d_logits, upstream * d_slope

        return loss, grad

    return grade_loss


@keras.saving.register_keras_serializable(package="postmark")
class InkPooling(keras.layers.Layer):
    def __init__(self, window=2, data_format="channels_last", **kwargs):
        super().__init__(**kwargs)
        self.window, self.data_format = window, data_format
        self._pool = make_ink_pool(window, data_format)

    def build(self, input_shape):
        axis = 1 if self.data_format == "channels_first" else -1
        self.mix = self.add_weight(
            shape=(input_shape[axis],), initializer=keras.initializers.Constant(0.5), name="mix"
        )

    def call(self, images):
        return self._pool(images, ops.clip(self.mix, 0.0, 1.0))

    def get_config(self):
        return {**super().get_config(), "window": self.window, "data_format": self.data_format}
