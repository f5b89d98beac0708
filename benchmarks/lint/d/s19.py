import math
from scipy.special import gamma


def binom_logpmf(k: int, n: int, p: float) -> float:
    """0 <= k <= n <= 500 and 0 < p < 1."""
    ways = gamma(n + 1.0) / (gamma(k + 1.0) * gamma(n - k + 1.0))
    return math.log(ways) + k * math.log(p) + (n - k) * math.log1p(-p)
