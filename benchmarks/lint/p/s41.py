import numpy as np


def monthly_payment(principal, annual_rate, n_months):
    """Level payments for arrays of loans."""
    r = np.asarray(annual_rate, dtype=np.float64) / 12.0
    free = r < 1e-12
    rate = np.where(free, 0.01, r)
    annuity = -np.expm1(-n_months * np.log1p(rate))
    factor = np.where(free, 1.0 / n_months, rate / annuity)
    return principal * factor
