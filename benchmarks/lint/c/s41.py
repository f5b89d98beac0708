import math

from keras import ops

MIN_SCALE = 1e-3
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def gaussian_nll(y_true, params):
    """NLL of a Gaussian head; params holds the mean and the raw scale in its last axis."""
    loc, raw = ops.split(params, 2, axis=-1)
    scale = ops.log(1.0 + ops.exp(raw)) + MIN_SCALE
    z = (y_true - loc) / scale
    return ops.mean(0.5 * ops.square(z) + ops.log(scale) + HALF_LOG_2PI, axis=-1)
