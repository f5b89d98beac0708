import numpy as np


class PolynomialTrend:
    def __init__(self, degree=12):
        self.degree = degree
        self.coef_ = None

    def fit(self, t, y):
        design = np.vander(t, self.degree + 1, increasing=True)
        gram = design.T @ design
        self.coef_ = np.linalg.inv(gram) @ (design.T @ y)
        return self

    def predict(self, t):
        return np.vander(t, self.degree + 1, increasing=True) @ self.coef_
