import numpy as np


def composite(sigma, delta, rgb):
    """Alpha compositing along the last axis of sigma; rgb has a further channel axis."""
    alpha = -np.expm1(-sigma * delta)
    ones = np.ones_like(alpha[..., :1])
    trans = np.cumprod(np.concatenate([ones, 1.0 - alpha[..., :-1]], axis=-1), axis=-1)
    weights = alpha * trans
    color = (weights[..., None] * rgb).sum(axis=-2)
    return color, weights
