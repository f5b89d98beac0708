import numpy as np


def mvn_logpdf(x, mean, cov):
    """Log-density of a multivariate normal."""
    d = mean.shape[0]
    diff = x - mean
    maha = diff @ np.linalg.solve(cov, diff)
    _, logdet = np.linalg.slogdet(cov)
    return -0.5 * (d * np.log(2 * np.pi) + logdet + maha)
