import numpy as np
from scipy.stats import norm


class HeckmanCorrection:
    """Second-stage regressor from a fitted selection equation."""

    def __init__(self, gamma):
        self.gamma = np.asarray(gamma, dtype=float)

    def regressor(self, Z):
        idx = np.asarray(Z) @ self.gamma
        num = norm.pdf(idx)
        den = norm.cdf(idx)
        return num / den

    def design(self, X, Z):
        return np.column_stack([X, self.regressor(Z)])
