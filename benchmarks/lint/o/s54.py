import math


def instalment(principal, annual_rate, months):
    r = annual_rate / 12.0
    if r == 0:
        return principal / months
    shrink = -math.expm1(-months * math.log1p(r))
    return principal * r / shrink


def amortise(principal, annual_rate, months):
    """Yield (interest, principal) parts of each instalment."""
    pay = instalment(principal, annual_rate, months)
    balance = principal
    for _ in range(months):
        interest = balance * annual_rate / 12.0
        balance -= pay - interest
        yield interest, pay - interest
