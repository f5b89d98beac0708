import math
from math import comb


def choose(n, k):
    if k < 0 or k > n:
        raise ValueError("k must be in 0..n")
    return comb(n, k)


def binom_logpmf(k, n, p):
    if not 0.0 < p < 1.0:
        raise ValueError("p must be inside (0, 1)")
    return math.log(choose(n, k)) + k * math.log(p) + (n - k) * math.log1p(-p)
