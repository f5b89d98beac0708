import numpy as np


def channel_std(frames):
    """Standard deviation of every sensor channel; frames is (time, channel)."""
    x = np.asarray(frames, dtype=np.float32)
    n = x.shape[0]
    s1 = x.sum(axis=0)
    s2 = (x * x).sum(axis=0)
    var = s2 / n - (s1 / n) ** 2
    return np.sqrt(var)
