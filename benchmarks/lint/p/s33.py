import numpy as np


def rolling_time_spread(stamps, window):
    """Standard deviation of unix arrival times (s) inside a sliding window."""
    t = np.asarray(stamps, dtype=np.float64)
    blocks = np.lib.stride_tricks.sliding_window_view(t, window)
    centre = blocks.mean(axis=-1, keepdims=True)
    deviation = blocks - centre
    var = np.mean(deviation * deviation, axis=-1)
    return np.sqrt(var)
