import numpy as np


def fit_trend(years, values, degree=4):
    """Polynomial trend of an annual series; years such as 1900, 1901, ..., 2020."""
    x = np.asarray(years, dtype=np.float64)
    A = np.vander(x, degree + 1, increasing=True)
    coef = np.linalg.inv(A.T @ A) @ (A.T @ values)
    return coef


def evaluate(coef, years):
    x = np.asarray(years, dtype=np.float64)
    return np.vander(x, len(coef), increasing=True) @ coef
