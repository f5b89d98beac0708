import numpy as np
from scipy import stats


def surprise_scores(value, mean, sd):
    """-log10 of the one-sided p-value of winsorised readings."""
    z = np.abs((value - mean) / sd)
    z = np.minimum(z, 5.0)
    upper = 1.0 - stats.norm.cdf(z)
    return -np.log10(upper)
