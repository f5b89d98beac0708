import numpy as np
from scipy.special import gammaln, xlog1py, xlogy


def beta_pdf(x, a, b):
    x = np.asarray(x, dtype=np.float64)
    log_norm = gammaln(a + b) - gammaln(a) - gammaln(b)
    inside = (x > 0) & (x < 1)
    xs = np.where(inside, x, 0.5)
    log_pdf = log_norm + xlogy(a - 1, xs) + xlog1py(b - 1, -xs)
    return np.where(inside, np.exp(log_pdf), 0.0)
