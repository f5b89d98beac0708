import numpy as np


def frame_noise(frames):
    """Standard deviation over time of uint16 sensor frames."""
    x = frames.astype(np.int64)
    n = x.shape[0]
    s1 = x.sum(axis=0)
    s2 = (x * x).sum(axis=0)
    spread = n * s2 - s1 * s1
    return np.sqrt(spread) / n
