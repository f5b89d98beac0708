import numpy as np


def to_hist(values, edges):
    values = np.asarray(values)
    if values.size == 0:
        raise ValueError("no values")
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    return counts / values.size


def drift_score(reference, current, edges):
    """Jensen-Shannon divergence of two samples on common bins."""
    p = to_hist(reference, edges)
    q = to_hist(current, edges)
    m = 0.5 * (p + q)
    left = np.sum(p * np.log(p / m))
    right = np.sum(q * np.log(q / m))
    return 0.5 * (left + right)
