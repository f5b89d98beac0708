import math


def real_roots(a, b, c):
    """Both roots of a*x^2 + b*x + c, or None (a is not 0)."""
    disc = b * b - 4.0 * a * c
    if disc < 0.0:
        return None
    root = math.sqrt(disc)
    x1 = (-b + root) / (2.0 * a)
    x2 = (-b - root) / (2.0 * a)
    return min(x1, x2), max(x1, x2)
