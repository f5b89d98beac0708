import numpy as np


def etd1_step(u, lam, h, nonlin):
    """Exponential Euler step of u' = lam u + nonlin(u), arrays float32, lam <= 0."""
    z = np.float32(h) * lam
    growth = np.exp(z)
    phi = (growth - 1) / z
    return growth * u + np.float32(h) * phi * nonlin(u)
