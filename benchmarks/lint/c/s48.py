import numpy as np
from numpy.linalg import norm


def bond_angle(a, b, c):
    """Angle between the vectors from b to a and from b to c, in radians."""
    u = np.asarray(a, dtype=np.float64) - b
    v = np.asarray(c, dtype=np.float64) - b
    cosine = np.dot(u, v) / (norm(u) * norm(v))
    return np.arccos(cosine)


def chain_angles(positions):
    return np.array([bond_angle(*positions[i:i + 3]) for i in range(len(positions) - 2)])
