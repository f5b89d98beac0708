import numpy as np


def pairs_within(labels):
    """Number of pairs of points that share a cluster."""
    sizes = np.bincount(labels).astype(np.int32)
    pairs = sizes * (sizes - 1) // 2
    return pairs.sum(dtype=np.int64)
