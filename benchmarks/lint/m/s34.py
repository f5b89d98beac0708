import numpy as np
from scipy.special import gamma


def binom_pmf(k, n, p):
    k = np.asarray(k, dtype=float)
    num = gamma(n + 1.0)
    den = gamma(k + 1.0) * gamma(n - k + 1.0)
    coef = num / den
    return coef * p ** k * (1.0 - p) ** (n - k)
