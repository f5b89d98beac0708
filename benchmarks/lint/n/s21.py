import numpy as np


def fit_trend(t, y, degree=12):
    X = np.vander(t, degree + 1, increasing=True)
    gram = X.T @ X
    coef = np.linalg.inv(gram) @ (X.T @ y)
    return coef


def detrend(t, y, degree=12):
    coef = fit_trend(t, y, degree)
    return y - np.vander(t, degree + 1, increasing=True) @ coef
