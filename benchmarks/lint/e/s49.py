import numpy as np
from scipy import special


def association_scores(beta, se):
    """Two-sided -log10 p of Wald tests, as drawn in a Manhattan plot."""
    z = np.abs(beta) / se
    p = 2.0 * (1.0 - special.ndtr(z))
    return -np.log10(p)


def genomic_inflation(beta, se):
    return np.median((beta / se) ** 2) / 0.4549364
