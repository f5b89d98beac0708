import math


def future_value_factor(rate, periods):
    if rate == 0.0:
        return float(periods)
    growth = math.expm1(periods * math.log1p(rate))
    return growth / rate


def sinking_fund_payment(target, annual_rate, years):
    if years <= 0:
        raise ValueError("years must be positive")
    rate = annual_rate / 12
    return target / future_value_factor(rate, years * 12)
