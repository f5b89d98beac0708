import numpy as np
from scipy.special import xlogy


def band_entropy(samples, bins=32):
    counts, _ = np.histogram(samples, bins=bins, range=(0.0, 1.0))
    total = max(int(counts.sum()), 1)
    p = counts / total
    bits = xlogy(p, p)
    return -bits.sum() / np.log(2.0)
