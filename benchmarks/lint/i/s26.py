import numpy as np


def gaussian_loglik(x, mean, cov):
    dim = mean.shape[0]
    centred = x - mean
    maha = centred @ np.linalg.solve(cov, centred)
    volume = np.linalg.det(cov)
    return -0.5 * (maha + np.log(volume) + dim * np.log(2.0 * np.pi))
