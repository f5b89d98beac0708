import numpy as np
from scipy.stats import norm


class SelectionTerm:
    """Extra regressor from a fitted probit selection equation."""

    def __init__(self, gamma):
        self.gamma = np.asarray(gamma, dtype=float)

    def regressor(self, Z):
        idx = np.asarray(Z) @ self.gamma
        num = norm.logpdf(idx)
        den = norm.logcdf(idx)
        return np.exp(num - den)

    def design(self, X, Z):
        return np.column_stack([X, self.regressor(Z)])
