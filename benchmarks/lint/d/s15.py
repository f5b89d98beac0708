import numpy as np
from scipy import stats


def log_likelihood(x, mu, sigma):
    return np.log(np.prod(stats.norm.pdf(x, loc=mu, scale=sigma)))


def aic(x):
    mu, sigma = np.mean(x), np.std(x, ddof=1)
    return 2 * 2 - 2 * log_likelihood(x, mu, sigma)
