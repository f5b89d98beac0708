import numpy as np


def shannon_entropy(samples, bins=8, lo=0.0, hi=1.0):
    counts, _ = np.histogram(samples, bins=bins, range=(lo, hi))
    total = max(int(counts.sum()), 1)
    p = counts / total
    return -np.sum(p * np.log2(p))
