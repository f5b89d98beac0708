import numpy as np


def shannon_entropy(samples, bins=32, base=2.0):
    counts, _ = np.histogram(samples, bins=bins)
    p = counts / max(counts.sum(), 1)
    terms = p * np.log(p)
    return -terms.sum() / np.log(base)
