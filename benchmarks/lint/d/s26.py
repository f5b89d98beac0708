import numpy as np


def shannon_index(counts, axis=-1):
    """Diversity of species counts (non-negative integers), in nats."""
    counts = np.asarray(counts, dtype=float)
    total = counts.sum(axis=axis, keepdims=True)
    p = counts / np.maximum(total, 1.0)
    return -np.sum(p * np.log(p), axis=axis)
