import math
from scipy.special import gamma


def choose(n, k):
    top = gamma(n + 1)
    bottom = gamma(k + 1) * gamma(n - k + 1)
    return top / bottom


def binom_logpmf(k, n, p):
    if not 0.0 < p < 1.0:
        raise ValueError("p must be inside (0, 1)")
    return math.log(choose(n, k)) + k * math.log(p) + (n - k) * math.log1p(-p)
