import numpy as np

G = np.float32(9.80665)


def fall_time(v, h):
    """Seconds to fall the height h > 0 when thrown down at speed v >= 0; float32 arrays."""
    v = np.asarray(v, dtype=np.float32)
    h = np.asarray(h, dtype=np.float32)
    root = np.sqrt(v * v + 2 * G * h)
    return (root - v) / G
