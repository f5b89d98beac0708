import numpy as np


class PolynomialTrend:
    def __init__(self, degree):
        self.degree = degree
        self.coef_ = None

    def fit(self, t, y):
        A = np.vander(t, self.degree + 1, increasing=True)
        scale = np.abs(A).max(axis=0)
        scale[scale == 0] = 1.0
        self.coef_ = np.linalg.lstsq(A / scale, y, rcond=None)[0] / scale
        return self

    def predict(self, t):
        return np.vander(t, self.degree + 1, increasing=True) @ self.coef_
