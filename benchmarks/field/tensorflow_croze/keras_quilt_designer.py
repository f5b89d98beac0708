"""A model that lays out quilts: which fabric goes into which block, given the fabrics around it.

Everything is written with ``keras.ops``, so that the shop's laptop (JAX) and the long-arm machine's box (TensorFlow) run the
same file.
"""
import math

import keras
from keras import ops


def _upstream(args, upstream):
    return args[-1] if upstream is None else upstream


def make_block_loss(fabric_ids, importance):
    """Loss for the fabrics of the blocks.

    :param fabric_ids: the fabric that the quilter chose for each block, integers, shape (blocks,)
    :param importance: how much each block matters, shape (blocks,), not negative: zero for a block that is not cut yet,
        more for blocks at the centre of the quilt
    :return: a function of logits (blocks, fabrics) and a scalar log temperature; the weighted mean of the negative log
        likelihoods, the weights being the importances
    """

    @ops.custom_gradient
    def block_nll(logits, log_temperature):
        fabrics = logits.shape[-1]
        target = ops.one_hot(fabric_ids, fabrics, dtype=logits.dtype)
        weight = ops.cast(importance, logits.dtype)
        cool = ops.exp(-log_temperature)
        scaled = logits * cool
        logp = ops.log_softmax(scaled, axis=-1)
        nll = -ops.sum(target * logp, axis=-1)
        loss = ops.sum(weight * nll) / ops.maximum(ops.sum(weight), 1e-6)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            cut = ops.sum(ops.cast(weight > 0, logits.dtype))
            row = g * weight / ops.maximum(cut, 1.0)
            g_scaled = ops.expand_dims(row, -1) * (ops.exp(logp) - target)
            return g_scaled * cool, -ops.sum(g_scaled * scaled)

        return loss, grad

    return block_nll


@ops.custom_gradient
def tinted_residual(x, gain, shift, depth):
    """x + depth * sigmoid(gain * x + shift).

    x is (batch, rows, columns, channels), a quilt's grid of blocks; gain and shift are (batch, channels), made from the
    quilt's colour scheme; depth is a scalar that starts at zero.
    """
    wide_gain = gain[:, None, None, :]
    bent = ops.sigmoid(wide_gain * x + shift[:, None, None, :])

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        g_in = depth * g * bent * (1.0 - bent)
        return (
            g + g_in * wide_gain,
            ops.sum(g_in * x, axis=(1, 2)),
            ops.sum(g_in, axis=(1, 2)),
            ops.sum(g * bent),
        )

    return x + depth * bent, grad


class HaloPool(keras.layers.Layer):
    """Pools the fabrics around a block, near ones more than far ones.

    Each channel has its own reach: a block at distance d counts with exp(-exp(sharpness) * d**2).

    Args:
        normalise: True for a weighted mean over the neighbours, False for a weighted sum.
    """

    def __init__(self, channels, normalise=True, **kwargs):
        super().__init__(**kwargs)
        self.channels = channels
        self.normalise = normalise

    def build(self, *_):
        self.sharpness = self.add_weight(shape=(self.channels,), initializer="zeros", name="sharpness")

    def call(self, values, distance, present):
        """values (batch, neighbours, channels), distance (batch, neighbours), present (batch, neighbours) bool."""
        return self.pool(values, distance, 1.0 * self.sharpness, present)

    def pool(self, values, distance, sharpness, present):
        normalise = self.normalise

        @ops.custom_gradient
        def halo(values, distance, sharpness):
            there = ops.cast(present, values.dtype)[..., None]
            rate = ops.exp(sharpness)
            sq = ops.square(distance)[..., None]
            w = there * ops.exp(-rate * sq)
            pooled = ops.sum(w * values, axis=1)
            total = ops.sum(w, axis=1) + 1e-9 if normalise else ops.ones_like(pooled)
            pooled = pooled / total

            def grad(*args, upstream=None):
                g = ops.expand_dims(_upstream(args, upstream) / total, 1)
                g_w = g * (values - ops.expand_dims(pooled, 1))
                g_exponent = g_w * w
                return (
                    g * w,
                    -2.0 * distance * ops.sum(g_exponent * rate, axis=-1),
                    -rate * ops.sum(g_exponent * sq, axis=(0, 1)),
                )

            return pooled, grad

        return halo(values, distance, sharpness)

    def get_config(self):
        return {**super().get_config(), "channels": self.channels, "normalise": self.normalise}


def grid_distances(rows, columns, at):
    """Distances of all blocks of a grid to the block `at` (row, column), as a flat list."""
    return [math.hypot(r - at[0], c - at[1]) for r in range(rows) for c in range(columns)]


def build_designer(channels=8, fabrics=12):
    values = keras.Input((None, channels))
    distance = keras.Input((None,))
    present = keras.Input((None,), dtype="bool")
    halo = HaloPool(channels)(values, distance, present)
    return keras.Model([values, distance, present], keras.layers.Dense(fabrics)(halo))
