import numpy as np

ORIGIN, SPAN = 1960.0, 60.0


def fit_trend(years, values, degree=4):
    """Polynomial trend of an annual series; years such as 1900, 1901, ..., 2020."""
    x = (np.asarray(years, dtype=np.float64) - ORIGIN) / SPAN
    A = np.vander(x, degree + 1, increasing=True)
    coef, *_ = np.linalg.lstsq(A, values, rcond=None)
    return coef


def evaluate(coef, years):
    x = (np.asarray(years, dtype=np.float64) - ORIGIN) / SPAN
    return np.vander(x, len(coef), increasing=True) @ coef
