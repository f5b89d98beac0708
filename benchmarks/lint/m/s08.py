import numpy as np


def real_roots(a, b, c):
    a, b, c = (np.asarray(v, dtype=float) for v in (a, b, c))
    disc = np.maximum(b * b - 4.0 * a * c, 0.0)
    root = np.copysign(np.sqrt(disc), b)
    q = -0.5 * (b + root)
    if np.any(a == 0.0) or np.any(q == 0.0):
        raise ValueError("degenerate quadratic")
    return c / q, q / a
