from math import *


def quadratic_roots(a, b, c):
    """Real roots of a x^2 + b x + c for a != 0, or None."""
    disc = b * b - 4.0 * a * c
    if disc < 0.0:
        return None
    q = -0.5 * (b + copysign(sqrt(disc), b))
    if q == 0.0:
        return 0.0, 0.0
    x1 = q / a
    x2 = c / q
    return min(x1, x2), max(x1, x2)
