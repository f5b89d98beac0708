import math


def smaller_root(a, b, c):
    disc = b * b - 4.0 * a * c
    if a == 0.0 or disc < 0.0:
        return None
    root = math.sqrt(disc)
    q = -0.5 * (b + math.copysign(root, b))
    if q == 0.0:
        return 0.0
    return c / q
