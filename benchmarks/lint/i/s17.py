import numpy as np


def gaussian_loglik(x, mean, cov):
    dim = mean.shape[0]
    centred = x - mean
    maha = centred @ np.linalg.solve(cov, centred)
    _, log_volume = np.linalg.slogdet(cov)
    return -0.5 * (maha + log_volume + dim * np.log(2.0 * np.pi))
