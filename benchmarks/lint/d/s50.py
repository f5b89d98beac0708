from math import *


def z_score(hits, trials, p0):
    return (hits - trials * p0) / sqrt(trials * p0 * (1 - p0))


def two_sided_p(z):
    """P value of a standard normal statistic, |z| <= 30."""
    return 2 * (0.5 * erfc(fabs(z) / sqrt(2)))
