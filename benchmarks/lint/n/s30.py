import numpy as np


def field_magnitude(ex, ey):
    ex = np.asarray(ex, dtype=np.float32)
    ey = np.asarray(ey, dtype=np.float32)
    return np.hypot(ex, ey)


def peak(ex, ey):
    return float(field_magnitude(ex, ey).max())
