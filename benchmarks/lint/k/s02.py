import math


def givens(a, b):
    """Rotation (c, s, r) that maps (a, b) to (r, 0)."""
    if b == 0.0:
        return 1.0, 0.0, a
    r = math.sqrt(a * a + b * b)
    return a / r, b / r, r
