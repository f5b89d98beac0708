import numpy as np
from scipy.special import gamma

DOF = 5


def student_t_pdf(x):
    top = gamma((DOF + 1) / 2)
    bottom = np.sqrt(DOF * np.pi) * gamma(DOF / 2)
    norm = top / bottom
    return norm * (1 + x * x / DOF) ** (-(DOF + 1) / 2)


def relative_weights(residuals):
    return student_t_pdf(residuals) / student_t_pdf(0.0)
