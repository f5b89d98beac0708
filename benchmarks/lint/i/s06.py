import math


def monthly_payment(principal, annual_rate, months):
    if months < 1:
        raise ValueError("months")
    r = annual_rate / 12.0
    growth = math.pow(1.0 + r, -months)
    return principal * r / (1.0 - growth)


def total_paid(principal, annual_rate, months):
    return months * monthly_payment(principal, annual_rate, months)
