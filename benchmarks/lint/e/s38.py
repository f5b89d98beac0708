import numpy as np


def waiting_times(rate, size, seed=None):
    """Exponential waiting times of a Poisson process by inversion, float32."""
    rng = np.random.default_rng(seed)
    u = rng.random(size, dtype=np.float32)
    return -np.log(u) / np.float32(rate)


def arrival_times(rate, size, seed=None):
    return np.cumsum(waiting_times(rate, size, seed), dtype=np.float64)
