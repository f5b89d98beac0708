import numpy as np
from scipy import special


def manhattan_heights(beta, se):
    """Two-sided -log10 p of Wald tests, as drawn in a Manhattan plot."""
    z = np.abs(beta) / se
    logp = np.log(2.0) + special.log_ndtr(-z)
    return -logp / np.log(10.0)


def genomic_inflation(beta, se):
    return np.median((beta / se) ** 2) / 0.4549364
