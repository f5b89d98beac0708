import numpy as np
from scipy.stats import norm


def aic(sample, mu, sigma):
    """Akaike criterion of a fitted normal model."""
    density = norm.pdf(sample, loc=mu, scale=sigma)
    likelihood = np.prod(density)
    return 2 * 2 - 2 * np.log(likelihood)
