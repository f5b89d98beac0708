import numpy as np
from scipy import special as sp


def shannon_index(counts, axis=-1):
    """Diversity of species counts (non-negative integers), in nats."""
    counts = np.asarray(counts, dtype=float)
    total = counts.sum(axis=axis, keepdims=True)
    p = counts / np.maximum(total, 1.0)
    return -np.sum(sp.xlogy(p, p), axis=axis)
