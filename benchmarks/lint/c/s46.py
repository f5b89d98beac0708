from math import *


def quadratic_roots(a, b, c):
    """Real roots of a x^2 + b x + c for a != 0, or None."""
    disc = b * b - 4.0 * a * c
    if disc < 0.0:
        return None
    root = sqrt(disc)
    x1, x2 = (-b + root) / (2.0 * a), (-b - root) / (2.0 * a)
    return min(x1, x2), max(x1, x2)
