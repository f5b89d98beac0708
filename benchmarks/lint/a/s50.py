import numpy as np
from scipy.stats import norm


def bic(sample, mu, sigma):
    """Schwarz criterion of a fitted normal model."""
    density = norm.logpdf(sample, loc=mu, scale=sigma)
    loglik = np.sum(density)
    return 2 * np.log(len(sample)) - 2 * loglik
