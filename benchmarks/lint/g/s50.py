import numpy as np
from scipy.linalg import cholesky, solve_triangular


def mvn_logpdf(y, mean, cov):
    chol = cholesky(cov, lower=True)
    white = solve_triangular(chol, y - mean, lower=True)
    half_logdet = np.sum(np.log(np.diag(chol)))
    n = y.shape[0]
    return -0.5 * white @ white - half_logdet - 0.5 * n * np.log(2.0 * np.pi)
