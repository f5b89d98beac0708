import numpy as np
from scipy.special import gamma


def student_logpdf(x, dof, loc=0.0, scale=1.0):
    if dof <= 0 or scale <= 0:
        raise ValueError("dof and scale must be positive")
    z = (x - loc) / scale
    ratio = gamma(0.5 * (dof + 1)) / gamma(0.5 * dof)
    log_norm = np.log(ratio) - 0.5 * np.log(dof * np.pi) - np.log(scale)
    return log_norm - 0.5 * (dof + 1) * np.log1p(z * z / dof)
