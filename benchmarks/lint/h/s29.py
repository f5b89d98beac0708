from math import *

import numpy as np
from scipy.special import ndtr

HALF_LOG_2PI = 0.5 * log(2.0 * pi)


def tobit_loglik(y, mu, log_sigma, limit):
    """Right-censored normal regression, observations at limit are censored."""
    sigma = exp(log_sigma)
    z = (y - mu) / sigma
    dens = -0.5 * z ** 2 - log_sigma - HALF_LOG_2PI
    tail = np.log(1.0 - ndtr((limit - mu) / sigma))
    return np.where(y >= limit, tail, dens).sum()
