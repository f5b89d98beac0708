import numpy as np
from scipy import linalg


def mvn_logpdf(x, mean, cov):
    dim = mean.shape[0]
    factor = linalg.cho_factor(cov, lower=True)
    delta = x - mean
    maha = delta @ linalg.cho_solve(factor, delta)
    logdet = 2.0 * np.log(np.diagonal(factor[0])).sum()
    return -0.5 * (maha + logdet + dim * np.log(2.0 * np.pi))
