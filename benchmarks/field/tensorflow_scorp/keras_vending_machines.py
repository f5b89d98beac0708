"""Vending machines: what is sold between two visits of the van, and what a promotion brings in.

Machines are the first axis and slots (spirals) the second; days, where there are any, come before both.
Written with keras.ops only.
"""
from typing import Iterable, NamedTuple

from keras import ops

#: cans; softens sales near an empty spiral
HALF = 1.0


class Tour(NamedTuple):
    refill_days: tuple  # days whose morning brings the van
    days: int


def weekly_tour(days: int, every: int = 7, first: int = 0) -> Tour:
    return Tour(tuple(range(first, days, every)), days)


def _cotangent(args, upstream):
    if upstream is None:
        (upstream,) = args
    return upstream


def _sales(stock, demand):
    return stock * demand / (stock + demand + HALF)


def make_stock_path(refill_days: Iterable[int]):
    """Daily sales of spirals that are filled to capacity on the mornings of ``refill_days``.

    Parameters
    ----------
    refill_days
        may be empty, may hold day 0, and days after the horizon do not matter

    Returns
    -------
    callable
        ``stock_path(stock, demand, capacity)`` with stock (machines, slots) >= 0, demand (days, machines, slots)
        >= 0, capacity (slots,); gives the cans sold, shaped as demand
    """
    mornings = frozenset(refill_days)

    @ops.custom_gradient
    def stock_path(stock, demand, capacity):
        days = demand.shape[0]
        held, sold = [], []
        current = stock
        for day in range(days):
            if day in mornings:
                current = ops.broadcast_to(capacity[None, :], stock.shape)
            held.append(current)
            sold.append(_sales(current, demand[day]))
            current = current - sold[-1]

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream)
            carry = ops.zeros_like(stock)
            d_capacity = ops.zeros_like(capacity)
            d_demand = [None] * days
            for day in range(days - 1, -1, -1):
                s, d = held[day], demand[day]
                square = (s + d + HALF) ** 2
                net = g[day] - carry
                d_demand[day] = net * s * (s + HALF) / square
                carry = carry + net * d * (d + HALF) / square
                if day in mornings:
                    d_capacity = d_capacity + ops.sum(carry, axis=0)
                    carry = ops.zeros_like(stock)
            return carry, ops.stack(d_demand), d_capacity

        return ops.stack(sold), grad

    return stock_path


def make_promo_revenue(kind="percent", sensitivity=1.2):
    """Expected takings per passer-by and machine under a promotion.

    ``kind`` "percent": the discount is a fraction of the price; "absolute": an amount off every price.
    A passer-by takes a slot with logit ``appeal - sensitivity * paid price``, or walks on (logit 0).
    """
    if kind not in ("percent", "absolute"):
        raise ValueError(f"unknown promotion {kind!r}")

    @ops.custom_gradient
    def promo_revenue(price, discount, appeal):
        # price, appeal: machines x slots.  discount: machines x 1.  result: machines
        keep = 1 - discount
        paid = price * keep if kind == "percent" else price - discount
        logit = appeal - sensitivity * paid
        top = ops.relu(ops.max(logit, axis=1, keepdims=True))
        weight = ops.exp(logit - top)
        share = weight / (ops.exp(-top) + ops.sum(weight, axis=1, keepdims=True))
        takings = ops.sum(share * paid, axis=1)

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream)[:, None]
            d_appeal = g * share * (paid - takings[:, None])
            d_paid = g * share - sensitivity * d_appeal
            d_price = d_paid * keep
            lost = d_paid * price if kind == "percent" else d_paid
            return d_price, -ops.sum(lost, axis=1, keepdims=True), d_appeal

        return takings, grad

    return promo_revenue


def main():
    import numpy as np

    tour = weekly_tour(14)
    demand = np.full((tour.days, 2, 3), 2.5, dtype="float32")
    path = make_stock_path(tour.refill_days)
    sold = path(ops.zeros((2, 3)), ops.convert_to_tensor(demand), ops.convert_to_tensor([10.0, 12.0, 8.0]))
    print("sold a day", ops.convert_to_numpy(ops.sum(sold, axis=(1, 2))))


if __name__ == "__main__":
    main()
