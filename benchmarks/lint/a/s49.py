import numpy as np
from numpy.linalg import norm


def bond_angles(u, v):
    """Angles between rows of two (n, 3) float32 arrays of non-zero vectors."""
    dot = np.sum(u * v, axis=1)
    cosine = dot / (norm(u, axis=1) * norm(v, axis=1))
    return np.degrees(np.arccos(cosine))
