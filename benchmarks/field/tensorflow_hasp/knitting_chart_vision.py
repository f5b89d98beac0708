"""Layers of a network that reads the stitches off photographs of knitted swatches.

A swatch is a stack of rows; each stitch of a row has C filter responses.  Written against keras.ops only, so that the
same file trains on the guild's torch machine and on the TensorFlow one of the yarn shop.
"""
import keras
from keras import ops


def _upstream(args, upstream):
    # torch hands the inputs and a keyword, the others the cotangent alone
    return args[0] if upstream is None else upstream


def make_row_scaler(axis=1, unbiased=False, epsilon=1e-6):
    """Centre and scale the responses along one axis.

    Args:
        axis: 1 to scale each filter over the stitches of a row, 2 to scale each stitch over its filters.
        unbiased: divide the squared deviations by one less than their number.
        epsilon: added to the variance.

    Returns:
        A function of ``x`` (rows, stitches, filters), ``gain`` (filters,) and ``shift`` (filters,).
    """

    @ops.custom_gradient
    def scale(x, gain, shift):
        count = x.shape[axis]
        centred = x - ops.sum(x, axis=axis, keepdims=True) / count
        denominator = count - 1 if unbiased else count
        variance = ops.sum(ops.square(centred), axis=axis, keepdims=True) / denominator
        inv = ops.rsqrt(variance + epsilon)
        unit = centred * inv

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_gain = ops.sum(g * unit, axis=(0, 1))
            d_shift = ops.sum(g, axis=(0, 1))
            h = g * gain
            level = ops.sum(h, axis=axis, keepdims=True) / count
            along = ops.sum(h * unit, axis=axis, keepdims=True) / count
            d_x = inv * (h - level - unit * along)
            return d_x, d_gain, d_shift

        return unit * gain + shift, grad

    return scale


def make_round_mixer(spread=1):
    """Mix stitches of a tube knitted in the round: the last stitch of a round is the neighbour of the first.

    The returned ``mix(x, taps)`` takes x (rounds, stitches, filters) and taps (K, filters), K odd.  The taps of a filter go
    through a softmax, so that each output is a weighted mean of the stitches at distances -K//2 .. K//2 times ``spread``.  A round
    may have fewer stitches than the taps reach.
    """

    @ops.custom_gradient
    def mix(x, taps):
        k = taps.shape[0]
        shifts = [(i - k // 2) * spread for i in range(k)]
        weight = ops.softmax(taps, axis=0)
        seen = [ops.roll(x, -d, axis=1) for d in shifts]
        y = sum(weight[i] * seen[i] for i in range(k))

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            d_x = sum(ops.roll(g * weight[i], d, axis=1) for i, d in enumerate(shifts))
            d_weight = ops.stack([ops.sum(g * s, axis=(0, 1)) for s in seen], axis=0)
            d_taps = weight * (d_weight - ops.sum(weight * d_weight, axis=0, keepdims=True))
            return d_x, d_taps

        return y, grad

    return mix


@ops.custom_gradient
def stitch_dissimilarity(x, samples, form):
    """Quadratic form between stitches and the sample stitches of the pattern book.

    x (stitches, features), samples (kinds, features), form (features, features), learnt freely and started from the identity.
    Returns (stitches, kinds): d @ form @ d with d = x - sample.
    """
    d = x[:, None, :] - samples[None, :, :]
    # sums of products: the libraries' matmul falls back to single precision on some backends
    turned = ops.sum(form * d[:, :, None, :], axis=-1)
    out = ops.sum(d * turned, axis=-1)

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)[:, :, None]
        d_d = 2.0 * g * turned
        d_form = ops.sum((g * d)[:, :, :, None] * d[:, :, None, :], axis=(0, 1))
        return ops.sum(d_d, axis=1), -ops.sum(d_d, axis=0), d_form

    return out, grad


class RowScaler(keras.layers.Layer):
    """``make_row_scaler`` with weights of its own."""

    def __init__(self, axis=1, unbiased=False, **kwargs):
        super().__init__(**kwargs)
        self.scale = make_row_scaler(axis, unbiased)

    def build(self, shape):
        self.gain = self.add_weight(shape=(shape[-1],), initializer="ones", name="gain")
        self.shift = self.add_weight(shape=(shape[-1],), initializer="zeros", name="shift")

    def call(self, x):
        # products, since a custom gradient may not be handed the variables themselves
        return self.scale(x, 1.0 * self.gain, 1.0 * self.shift)


def name_stitches(x, samples, form, names):
    """The most similar sample's name for each stitch."""
    nearest = ops.convert_to_numpy(ops.argmin(stitch_dissimilarity(x, samples, form), axis=1))
    return [names[i] for i in nearest]
