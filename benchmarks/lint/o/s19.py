import numpy as np
from scipy.special import rel_entr


def binned(values, edges):
    values = np.asarray(values)
    if values.size == 0:
        raise ValueError("no values")
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    return counts / values.size


def shift_score(reference, current, edges):
    """Jensen-Shannon divergence of two samples on common bins."""
    p = binned(reference, edges)
    q = binned(current, edges)
    m = 0.5 * (p + q)
    left = np.sum(rel_entr(p, m))
    right = np.sum(rel_entr(q, m))
    return 0.5 * (left + right)
