import numpy as np


def pixel_std(frames):
    """Standard deviation of every pixel; frames is (time, pixel), uint8 from the camera."""
    x = np.asarray(frames, dtype=np.uint8).astype(np.int64)
    n = x.shape[0]
    s1 = x.sum(axis=0)
    s2 = (x * x).sum(axis=0)
    var = (n * s2 - s1 ** 2) / (n * n)
    return np.sqrt(var)
