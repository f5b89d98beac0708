import numpy as np


def monthly_payment(principal, annual_rate, n_months):
    """Level payments for arrays of loans."""
    r = np.asarray(annual_rate, dtype=np.float64) / 12.0
    discount = (1.0 + r) ** (-n_months)
    factor = r / (1.0 - discount)
    return principal * factor
