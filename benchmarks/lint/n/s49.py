import numpy as np


def mvn_logpdf(x, mean, cov):
    d = mean.shape[0]
    resid = x - mean
    volume = np.linalg.det(cov)
    maha = resid @ np.linalg.solve(cov, resid)
    return -0.5 * (d * np.log(2 * np.pi) + np.log(volume) + maha)
