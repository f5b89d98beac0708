import math


def monthly_payment(principal, annual_rate, months):
    if months < 1:
        raise ValueError("months")
    r = annual_rate / 12.0
    if r == 0.0:
        return principal / months
    discount = math.expm1(-months * math.log1p(r))
    return principal * r / -discount


def total_paid(principal, annual_rate, months):
    return months * monthly_payment(principal, annual_rate, months)
