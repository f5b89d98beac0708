import numpy as np
from scipy import special


def log_normal_cdf(z):
    return special.log_ndtr(z)


def probit_loglik(beta, X, y):
    sign = np.where(y > 0, 1.0, -1.0)
    z = sign * (X @ beta)
    return log_normal_cdf(z).sum()
