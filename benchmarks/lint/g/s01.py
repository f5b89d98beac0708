import numpy as np
from scipy import stats


def wald(beta, se):
    return np.asarray(beta, dtype=np.float64) / np.asarray(se, dtype=np.float64)


def neg_log10_p(beta, se):
    """Heights -log10(p) of a genome-wide scan, two-sided."""
    z = np.abs(wald(beta, se))
    log_p = np.log(2.0) + stats.norm.logsf(z)
    return -log_p / np.log(10.0)
