import numpy as np


def overdamped_rates(m, c, k):
    """Both decay rates of m x'' + c x' + k x = 0 with m, c, k > 0 and c^2 >= 4 m k."""
    m, c, k = (np.asarray(v, dtype=np.float32) for v in (m, c, k))
    root = np.sqrt(np.maximum(c * c - 4 * m * k, 0))
    fast = (-c - root) / (2 * m)
    slow = (-c + root) / (2 * m)
    return fast, slow
