import keras
from keras import ops


@ops.custom_gradient
def odour_strength(moles, pressure, threshold, exponent):
    """Perceived strength of R blends of M materials.

    Raoult's law gives the headspace x p of each material, over its odour threshold, and
    Stevens' power law the strength (x p / threshold) ** exponent; strengths add up.

    moles [R, M] positive; pressure, threshold, exponent [M], positive.
    Returns [R, 2]: the strength, and the strength per mole of blend.
    """
    total = ops.sum(moles, axis=1, keepdims=True)
    x = moles / total
    value = x * pressure / threshold
    each = value**exponent
    strength = ops.sum(each, axis=1, keepdims=True)

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        d_strength = g[:, :1] + g[:, 1:] / total
        d_each = d_strength * each
        d_logv = d_each * exponent
        d_x = d_logv / x
        d_moles = (d_x - ops.sum(d_x * x, axis=1, keepdims=True)) / total
        d_log = ops.sum(d_logv, axis=0)
        return (
            d_moles,
            d_log / pressure,
            -d_log / threshold,
            ops.sum(d_each * ops.log(value), axis=0),
        )

    return ops.concatenate([strength, strength / total], axis=1), grad


@ops.custom_gradient
def drydown(amount, rate, hours):
    left = amount[:, None, :] * ops.exp(-rate * hours[:, None])
    total = ops.sum(left, axis=-1, keepdims=True)
    share = left / total

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        d_left = (g - ops.sum(g * share, axis=-1, keepdims=True)) / total
        decay = ops.exp(-rate * hours[:, None])
        flux = d_left * left
        return (
            ops.sum(d_left * decay, axis=1),
            -ops.sum(flux * hours[:, None], axis=(0, 1)),
            -ops.sum(flux * rate, axis=(0, 2)),
        )

    return share, grad


class AccordLoss(keras.losses.Loss):
    """Cross entropy of the wanted drydown shares."""

    def call(self, y_true, y_pred):
        return -ops.sum(y_true * ops.log(y_pred + keras.config.epsilon()), axis=-1)
