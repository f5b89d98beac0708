import numpy as np


def exp_euler(u, lam, h, nonlin):
    """Exponential Euler step of u' = lam u + nonlin(u), arrays float32, lam <= 0."""
    z = np.float32(h) * lam
    growth = np.exp(z)
    denom = np.where(z == 0, np.float32(1), z)
    phi = np.where(z == 0, np.float32(1), np.expm1(denom) / denom)
    return growth * u + np.float32(h) * phi * nonlin(u)
