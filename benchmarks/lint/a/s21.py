import numpy as np
from scipy import stats


def manhattan_heights(beta, se):
    """-log10 of the one-sided p-value of every variant."""
    z = np.abs(beta / se)
    upper = 1.0 - stats.norm.cdf(z)
    return -np.log10(upper)
