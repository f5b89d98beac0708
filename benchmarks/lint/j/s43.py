import numpy as np
from scipy.special import gamma


def student_t_pdf(x, dof):
    top = gamma((dof + 1) / 2)
    bottom = np.sqrt(dof * np.pi) * gamma(dof / 2)
    norm = top / bottom
    return norm * (1 + x * x / dof) ** (-(dof + 1) / 2)


def relative_weights(residuals, dof):
    return student_t_pdf(residuals, dof) / student_t_pdf(0.0, dof)
