import numpy as np


def fit_trend(t, y, degree=12):
    X = np.vander(t, degree + 1, increasing=True)
    coef, *_ = np.linalg.lstsq(X, y, rcond=None)
    return coef


def detrend(t, y, degree=12):
    coef = fit_trend(t, y, degree)
    return y - np.vander(t, degree + 1, increasing=True) @ coef
