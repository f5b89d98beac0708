import math


def real_roots(a, b, c):
    """Both roots of a*x^2 + b*x + c, or None (a is not 0)."""
    disc = b * b - 4.0 * a * c
    if disc < 0.0:
        return None
    q = -0.5 * (b + math.copysign(math.sqrt(disc), b))
    if q == 0.0:
        return 0.0, 0.0
    x1 = q / a
    x2 = c / q
    return min(x1, x2), max(x1, x2)
