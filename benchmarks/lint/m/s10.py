import math


def accumulation_factor(rate, years):
    if rate == 0.0:
        return float(years)
    growth = math.exp(rate * years) - 1.0
    return growth / rate


def future_value(payment, rate, years):
    return payment * accumulation_factor(rate, years)
