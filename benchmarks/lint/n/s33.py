import math


def discount_sum(rate, periods):
    if rate == 0.0:
        return float(periods)
    shrink = -math.expm1(-periods * math.log1p(rate))
    return shrink / rate


def monthly_payment(principal, annual_rate, years):
    months = max(12 * years, 1)
    return principal / discount_sum(annual_rate / 12.0, months)
