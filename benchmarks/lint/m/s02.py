import numpy as np
from scipy.special import gammaln, xlog1py, xlogy


def binom_pmf(k, n, p):
    k = np.asarray(k, dtype=float)
    num = gammaln(n + 1.0)
    den = gammaln(k + 1.0) + gammaln(n - k + 1.0)
    coef = num - den
    return np.exp(coef + xlogy(k, p) + xlog1py(n - k, -p))
