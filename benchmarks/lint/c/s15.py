import numpy as np
from scipy.stats import norm


def manhattan_heights(beta, stderr):
    """-log10 of the two-sided p-value of each association."""
    z = np.abs(beta / stderr)
    log_p = np.log(2.0) + norm.logsf(z)
    return -log_p / np.log(10.0)


def top_hits(beta, stderr, names, level=7.3):
    h = manhattan_heights(beta, stderr)
    return [names[i] for i in np.argsort(-h) if h[i] > level]
