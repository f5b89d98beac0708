import numpy as np


def composite(sigma, delta, rgb):
    """Alpha compositing along the last axis of sigma; rgb has a further channel axis."""
    alpha = -np.expm1(-sigma * delta)
    trans = np.cumprod(1.0 - alpha, axis=-1) / (1.0 - alpha)
    weights = alpha * trans
    color = (weights[..., None] * rgb).sum(axis=-2)
    return color, weights
