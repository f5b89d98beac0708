import math


def binomial_pmf(k, n, p):
    if not 0 < p < 1:
        raise ValueError("p must lie in (0, 1)")
    if k < 0 or k > n:
        return 0.0
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))


def upper_tail(k, n, p):
    return sum(binomial_pmf(i, n, p) for i in range(k, n + 1))
