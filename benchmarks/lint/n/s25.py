import math


def smaller_root(a, b, c):
    disc = b * b - 4.0 * a * c
    if a == 0.0 or disc < 0.0:
        return None
    root = math.sqrt(disc)
    if b >= 0.0:
        return (-b + root) / (2.0 * a)
    return (-b - root) / (2.0 * a)
