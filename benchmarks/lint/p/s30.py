import numpy as np


def rolling_time_spread(stamps, window):
    """Standard deviation of unix arrival times (s) inside a sliding window."""
    t = np.asarray(stamps, dtype=np.float64)
    c1 = np.concatenate([[0.0], np.cumsum(t)])
    c2 = np.concatenate([[0.0], np.cumsum(t * t)])
    s1 = c1[window:] - c1[:-window]
    s2 = c2[window:] - c2[:-window]
    var = s2 / window - (s1 / window) ** 2
    return np.sqrt(var)
