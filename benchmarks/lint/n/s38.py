def discount_sum(rate, periods):
    growth = (1.0 + rate) ** (-periods)
    return (1.0 - growth) / rate


def monthly_payment(principal, annual_rate, years):
    months = max(12 * years, 1)
    return principal / discount_sum(annual_rate / 12.0, months)
