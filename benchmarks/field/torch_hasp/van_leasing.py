"""Leasing of delivery vans: instalments, the customer's account, mileage.

Rates are per period (a month unless said otherwise) and plain fractions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_TERMS = 12  # of the expansion of the annuity factor about a rate of nought


def _annuity(rate, periods):
    """Present value of 1 a period in arrears, and its slope in the rate.

    Both are smooth at rate = 0, where the closed form is 0/0; there a series
    sum_k (-1)^k C(n+k, k+1) rate^k is used.
    """
    n = periods.to(rate.dtype)
    rate, n = torch.broadcast_tensors(rate, n)
    near = (rate.abs() * (n + _TERMS)) < 0.5

    coef = n
    value = torch.zeros_like(rate)
    slope = torch.zeros_like(rate)
    for k in range(_TERMS):
        value = value + coef * rate**k
        if k:
            slope = slope + coef * k * rate ** (k - 1)
        coef = -coef * (n + k + 1) / (k + 2)

    r = torch.where(near, torch.full_like(rate, 0.1), rate)
    v = torch.exp(-n * torch.log1p(r))
    closed = (1 - v) / r
    closed_slope = (n * v / (1 + r) - closed) / r
    return torch.where(near, value, closed), torch.where(near, slope, closed_slope)


class LeaseInstalment(Function):
    """Level instalment that takes a van from `price` down to `balloon`.

    price, balloon, rate and periods (whole numbers) broadcast.  With
    ``advance`` the instalments fall at the start of each period.  Nought
    per cent offers and negative rates (above -1) are allowed.
    """

    @staticmethod
    def forward(ctx, price, balloon, rate, periods, advance=False):
        factor, _ = _annuity(rate, periods)
        v = torch.exp(-periods.to(rate.dtype) * torch.log1p(rate))
        due = (price - balloon * v) / factor
        ctx.save_for_backward(price, balloon, rate, periods)
        ctx.advance = advance
        return due / (1 + rate) if advance else due

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        price, balloon, rate, periods = ctx.saved_tensors
        n = periods.to(rate.dtype)
        factor, slope = _annuity(rate, periods)
        v = torch.exp(-n * torch.log1p(rate))
        due = (price - balloon * v) / factor
        d_rate = (balloon * n * v / (1 + rate) - due * slope) / factor
        if ctx.advance:
            d_rate = (d_rate - due / (1 + rate)) / (1 + rate)
            g_p = g / (factor * (1 + rate))
        else:
            g_p = g / factor
        return (g_p.sum_to_size(price.shape), (-g_p * v).sum_to_size(balloon.shape),
                (g * d_rate).sum_to_size(rate.shape), None, None)


class CustomerAccount(Function):
    """Balances of customers' accounts over the months.

    A balance in credit earns ``credit_rate``, an overdrawn one is charged
    ``debit_rate``; then the month's net payment comes in::

        balance[t] = balance[t-1] * (1 + rate(balance[t-1])) + flow[t]

    Shapes: opening (customers,), flows (months, customers), both rates
    (customers,).  Returns balances (months, customers).
    """

    @staticmethod
    def forward(ctx, opening, flows, credit_rate, debit_rate):
        rows, now = [], opening
        for flow in flows:
            rate = torch.where(now >= 0, credit_rate, debit_rate)
            now = now * (1 + rate) + flow
            rows.append(now)
        balances = torch.stack(rows)
        ctx.save_for_backward(opening, balances, credit_rate, debit_rate)
        return balances

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        opening, balances, credit_rate, debit_rate = ctx.saved_tensors
        before = torch.cat([opening[None], balances[:-1]])
        in_credit = balances >= 0
        rates = torch.where(in_credit, credit_rate, debit_rate)
        carry = torch.zeros_like(opening)
        d_flows = torch.empty_like(balances)
        for t in range(balances.shape[0] - 1, -1, -1):
            carry = carry + g[t]
            d_flows[t] = carry
            carry = carry * (1 + rates[t])
        interest = d_flows * before
        d_credit = torch.where(in_credit, interest, torch.zeros_like(interest)).sum(0)
        d_debit = torch.where(in_credit, torch.zeros_like(interest), interest).sum(0)
        return carry, d_flows, d_credit, d_debit


class MileageCharge(Function):
    """Charge for the miles beyond the yearly allowance, in bands.

    ``edges`` (bands,), ascending, are miles a year at which each band opens,
    ``prices`` (bands,) the price of a mile in the band, the last of which is
    open at the top.  A van kept for ``months`` months has its edges in
    proportion.  miles, months: (vans,).
    """

    @staticmethod
    def forward(ctx, miles, months, edges, prices):
        scaled = edges * (months / 12.0)[:, None]
        above = (miles[:, None] - scaled).clamp(min=0)
        in_band = above - torch.cat([above[:, 1:], torch.zeros_like(above[:, :1])], 1)
        ctx.save_for_backward(miles, months, edges, prices)
        return in_band @ prices

    @staticmethod
    def backward(ctx, g):
        miles, months, edges, prices = ctx.saved_tensors
        scaled = edges * (months / 12.0)[:, None]
        above = (miles[:, None] - scaled).clamp(min=0)
        in_band = above - torch.cat([above[:, 1:], torch.zeros_like(above[:, :1])], 1)
        step = torch.cat([prices[:1], prices[1:] - prices[:-1]])
        reached = (above > 0).to(miles.dtype) * step          # (vans, bands)
        d_miles = g * reached.sum(1)
        d_months = -g * (reached * edges).sum(1) / 12.0
        d_edges = -(g[:, None] * reached).sum(0)
        d_prices = in_band.T @ g
        return d_miles, d_months, d_edges, d_prices


@dataclass
class Offer:
    price: float
    balloon: float
    rate: float
    periods: int
    advance: bool = True

    def instalment(self) -> torch.Tensor:
        t = lambda x: torch.tensor(x, dtype=torch.float64)
        return LeaseInstalment.apply(t(self.price), t(self.balloon), t(self.rate),
                                     torch.tensor(self.periods), self.advance)


def main():
    offer = Offer(price=31500.0, balloon=9800.0, rate=0.0049, periods=48)
    print(f"instalment {offer.instalment().item():.2f}")


if __name__ == "__main__":
    main()
