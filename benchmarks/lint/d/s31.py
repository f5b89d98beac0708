import math


def binom_logpmf(k: int, n: int, p: float) -> float:
    """0 <= k <= n <= 500 and 0 < p < 1."""
    ways = math.factorial(n) // (math.factorial(k) * math.factorial(n - k))
    return math.log(ways) + k * math.log(p) + (n - k) * math.log1p(-p)
