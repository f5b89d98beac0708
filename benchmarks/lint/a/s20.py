import numpy as np
from numpy.linalg import norm


def ray_angles(u, v):
    """Angles between rows of two (n, 3) float32 arrays of non-zero vectors."""
    dot = np.sum(u * v, axis=1)
    sine = norm(np.cross(u, v), axis=1)
    return np.degrees(np.arctan2(sine, dot))
