import numpy as np
from numpy import linalg as LA


def design(years, degree):
    return np.vander(years, degree + 1, increasing=True)


def detrend(years, temperature, degree=5):
    """Remove a polynomial trend; years are calendar years, 1950.0 to 2025.0."""
    A = design(np.asarray(years, dtype=np.float64), degree)
    beta = LA.inv(A.T @ A) @ (A.T @ temperature)
    return temperature - A @ beta
