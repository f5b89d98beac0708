import numpy as np
from scipy import special


def probit_scores(features, coef, intercept):
    return features @ coef + intercept


def probit_log_likelihood(features, y, coef, intercept):
    sign = 2 * y - 1
    z = sign * probit_scores(features, coef, intercept)
    cdf = 0.5 * special.erfc(-z / np.sqrt(2.0))
    return np.log(cdf).sum()
