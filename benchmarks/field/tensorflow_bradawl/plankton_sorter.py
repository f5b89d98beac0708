"""Sorting plankton images from a towed camera.

Three pieces of the network: pooling in rings about the middle of the crop (most plankton has no "up"), a modulation by the
magnification of the lens, and a loss for crops whose animals the experts could count only roughly.
"""
import keras
import numpy as np
from keras import ops

UNLABELLED = -1
SPARE_AREA = 1.0      # pixels, keeps rings that hold next to nothing of the animal quiet


def _incoming(args, upstream):
    return args[0] if upstream is None else upstream


def ring_table(height, width, rings):
    """int [height, width]: the ring of each pixel, counted outward; the corners belong to the last ring."""
    y = (np.arange(height) - (height - 1) / 2)[:, None]
    x = (np.arange(width) - (width - 1) / 2)[None, :]
    reach = min(height, width) / 2
    return np.minimum((np.hypot(y, x) / reach * rings).astype("int32"), rings - 1)


def make_ring_pool(height, width, rings=4):
    """Weighted mean of the features over each ring.

    Returns a function of `features` (batch, height, width, channels) and a soft `outline` (batch, height, width) of
    the animal, to (batch, rings, channels).
    """
    one_hot = np.eye(rings)[ring_table(height, width, rings)]

    @ops.custom_gradient
    def ring_pool(features, outline):
        member = ops.cast(ops.convert_to_tensor(one_hot), features.dtype)
        area = ops.einsum("bhw,hwr->br", outline, member) + SPARE_AREA
        pooled = ops.einsum("bhwc,bhw,hwr->brc", features, outline, member) / area[..., None]

        def grad(*args, upstream=None):
            share = _incoming(args, upstream) / area[..., None]
            spread = ops.einsum("brc,hwr->bhwc", share, member)
            level = ops.einsum("brc,brc,hwr->bhw", share, pooled, member)
            return spread * outline[..., None], ops.sum(spread * features, axis=-1) - level

        return pooled, grad

    return ring_pool


@ops.custom_gradient
def lens_modulation(x, gain, shift):
    """Scale and shift groups of neighbouring channels.

    x: (batch, height, width, channels); gain, shift: (batch, groups), where `groups` divides `channels`. With a gain and
    shift of zero x is left as it is.
    """
    channels, groups = x.shape[-1], gain.shape[-1]
    size = channels // groups
    wide = ops.repeat(gain, size, axis=-1)[:, None, None, :]
    offset = ops.repeat(shift, size, axis=-1)[:, None, None, :]

    def grad(*args, upstream=None):
        g = _incoming(args, upstream)

        def per_group(t):
            t = ops.sum(t, axis=(1, 2))
            return ops.sum(ops.reshape(t, (-1, size, groups)), axis=1)

        return g * (1.0 + wide), per_group(g * x), per_group(g)

    return x * (1.0 + wide) + offset, grad


class LensModulation(keras.layers.Layer):
    """Learns gain and shift from the log magnification (batch, 1)."""

    def __init__(self, groups=8, **kwargs):
        super().__init__(**kwargs)
        self.groups = groups
        self.dense = keras.layers.Dense(2 * groups, kernel_initializer="zeros")

    def call(self, x, log_magnification):
        both = self.dense(log_magnification)
        return lens_modulation(x, both[:, : self.groups], both[:, self.groups :])


def make_tally_loss(lowest, highest):
    """Loss of the head that counts the animals in a crop with more than one.

    Its logits (batch, bins) stand for 0, 1, 2, ... animals. The experts wrote down a number, or a span such as "4 to 6":
    `lowest` and `highest` are int (batch,), both ends belong to the span, and `lowest` is UNLABELLED where nobody counted. The
    loss is the mean over the counted crops of -log of the probability that the count lies in the span.
    """
    lowest, highest = np.asarray(lowest), np.asarray(highest)
    known = (lowest != UNLABELLED).astype("float64")
    share = known / max(known.sum(), 1.0)

    @ops.custom_gradient
    def tally_nll(logits):
        bins = np.arange(logits.shape[-1])
        span = (bins >= lowest[:, None]) & (bins <= highest[:, None])
        span = np.where(known[:, None] > 0, span, True)
        weight = ops.cast(ops.convert_to_tensor(share), logits.dtype)
        inside = ops.cast(ops.convert_to_tensor(span), logits.dtype)
        within = ops.logsumexp(ops.where(inside > 0, logits, -1e9), axis=-1)
        rows = ops.logsumexp(logits, axis=-1) - within

        def grad(*args, upstream=None):
            target = inside / ops.sum(inside, axis=-1, keepdims=True)
            return _incoming(args, upstream) * weight[:, None] * (ops.softmax(logits, axis=-1) - target)

        return ops.sum(weight * rows), grad

    return tally_nll


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    image = ops.convert_to_tensor(rng.normal(size=(2, 12, 10, 16)).astype("float32"))
    outline = ops.convert_to_tensor(rng.uniform(size=(2, 12, 10)).astype("float32"))
    print(make_ring_pool(12, 10)(LensModulation()(image, ops.ones((2, 1))), outline).shape)
    print(make_tally_loss([3, UNLABELLED], [3, 0])(ops.zeros((2, 8))))
