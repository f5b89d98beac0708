import numpy as np
from scipy.special import gamma


def beta_pdf(x, a, b):
    x = np.asarray(x, dtype=np.float64)
    norm = gamma(a + b) / (gamma(a) * gamma(b))
    inside = (x > 0) & (x < 1)
    xs = np.where(inside, x, 0.5)
    return np.where(inside, norm * xs ** (a - 1) * (1 - xs) ** (b - 1), 0.0)
