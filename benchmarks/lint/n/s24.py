import numpy as np


def mvn_logpdf(x, mean, cov):
    d = mean.shape[0]
    resid = x - mean
    chol = np.linalg.cholesky(cov)
    volume = 2.0 * np.log(np.diag(chol)).sum()
    white = np.linalg.solve(chol, resid)
    return -0.5 * (d * np.log(2 * np.pi) + volume + white @ white)
