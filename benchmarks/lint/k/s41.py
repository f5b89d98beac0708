import numpy as np


class PolynomialTrend:
    def __init__(self, degree):
        self.degree = degree
        self.coef_ = None

    def fit(self, t, y):
        A = np.vander(t, self.degree + 1, increasing=True)
        gram = A.T @ A
        self.coef_ = np.linalg.inv(gram) @ (A.T @ y)
        return self

    def predict(self, t):
        return np.vander(t, self.degree + 1, increasing=True) @ self.coef_
