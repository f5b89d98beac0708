def monthly_payment(principal, annual_rate, months):
    r = annual_rate / 12.0
    growth = (1.0 + r) ** (-months)
    return principal * r / (1.0 - growth)


def schedule(principal, annual_rate, months):
    """Yield (interest, principal) parts of each instalment."""
    pay = monthly_payment(principal, annual_rate, months)
    balance = principal
    for _ in range(months):
        interest = balance * annual_rate / 12.0
        balance -= pay - interest
        yield interest, pay - interest
