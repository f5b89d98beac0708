import numpy as np


def band_entropy(samples, bins=32):
    counts, _ = np.histogram(samples, bins=bins, range=(0.0, 1.0))
    total = max(int(counts.sum()), 1)
    p = counts / total
    bits = p * np.log(p)
    return -bits.sum() / np.log(2.0)
