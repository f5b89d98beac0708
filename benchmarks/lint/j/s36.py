import numpy as np


def frame_noise(frames):
    """Standard deviation over time of uint16 sensor frames."""
    x = frames.astype(np.float32)
    n = x.shape[0]
    s1 = x.sum(axis=0) / n
    s2 = (x * x).sum(axis=0) / n
    spread = s2 - s1 * s1
    return np.sqrt(spread)
