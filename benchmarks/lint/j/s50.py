import math


def future_value_factor(rate, periods):
    growth = math.pow(1.0 + rate, periods)
    return (growth - 1.0) / rate


def sinking_fund_payment(target, annual_rate, years):
    rate = annual_rate / 12
    return target / future_value_factor(rate, years * 12)
