import numpy as np
from scipy import stats


def z_scores(beta, se):
    return np.asarray(beta, dtype=np.float64) / np.asarray(se, dtype=np.float64)


def manhattan_heights(beta, se):
    """Heights -log10(p) of a genome-wide scan, two-sided."""
    z = np.abs(z_scores(beta, se))
    p = 2.0 * (1.0 - stats.norm.cdf(z))
    return -np.log10(p)
