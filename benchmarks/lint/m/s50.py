import numpy as np


def real_roots(a, b, c):
    a, b, c = (np.asarray(v, dtype=float) for v in (a, b, c))
    disc = np.maximum(b * b - 4.0 * a * c, 0.0)
    root = np.sqrt(disc)
    near = (-b + root) / (2.0 * a)
    far = (-b - root) / (2.0 * a)
    return near, far
