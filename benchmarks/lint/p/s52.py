import numpy as np


def gaussian_bic(data, shrinkage=0.05):
    n, d = data.shape
    centered = data - data.mean(axis=0)
    cov = centered.T @ centered / n
    cov = (1 - shrinkage) * cov + shrinkage * np.diag(np.diag(cov))
    whitened = np.linalg.solve(cov, centered.T)
    quad = np.sum(centered.T * whitened)
    _, log_det = np.linalg.slogdet(cov)
    loglik = -0.5 * (n * d * np.log(2 * np.pi) + n * log_det + quad)
    n_params = d + d * (d + 1) / 2
    return n_params * np.log(n) - 2 * loglik
