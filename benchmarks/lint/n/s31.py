import numpy as np
from scipy import special


def normal_cdf(z):
    return 0.5 * special.erfc(-z / np.sqrt(2.0))


def probit_loglik(beta, X, y):
    sign = np.where(y > 0, 1.0, -1.0)
    z = sign * (X @ beta)
    return np.log(normal_cdf(z)).sum()
