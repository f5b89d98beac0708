import numpy as np
from scipy.stats import norm


def manhattan_heights(beta, stderr):
    """-log10 of the two-sided p-value of each association."""
    z = np.abs(beta / stderr)
    p = 2.0 * (1.0 - norm.cdf(z))
    return -np.log10(p)


def top_hits(beta, stderr, names, level=7.3):
    h = manhattan_heights(beta, stderr)
    return [names[i] for i in np.argsort(-h) if h[i] > level]
