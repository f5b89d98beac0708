import numpy as np
from numpy import linalg as LA


def design(years, degree):
    s = (years - years.mean()) / (years.max() - years.min())
    return np.vander(s, degree + 1, increasing=True)


def detrend(years, temperature, degree=5):
    """Remove a polynomial trend; years are calendar years, 1950.0 to 2025.0."""
    A = design(np.asarray(years, dtype=np.float64), degree)
    beta, *_ = LA.lstsq(A, temperature, rcond=None)
    return temperature - A @ beta
