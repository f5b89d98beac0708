"""Reading bee hives that stand on scales.

The load cells drift with temperature, but with the temperature of the steel, which follows that of the air slowly. What is
left after the correction is fitted by a ledger of the honey stores. Series are (hives, days) or (hives, samples).
"""
from typing import NamedTuple

import numpy as np
from keras import ops


class Colony(NamedTuple):
    comb_capacity: float = 38.0     # kg that the comb can hold
    robbing: float = 0.004          # part of the stores lost per day


def _given(args, upstream):
    return upstream if upstream is not None else args[0]


def make_steel_temperature(restarts):
    """
    First order lag of the steel behind the air.

    restarts: bool (samples,), True where the logger began anew (battery change, new stand), so that the steel is taken to
    have the temperature of the air again. The first sample always counts as one.

    The function returned takes air (hives, samples) and rate (hives,), the part of the difference made up per sample.
    """
    fresh = np.asarray(restarts, dtype=bool).copy()
    fresh[0] = True

    @ops.custom_gradient
    def steel_temperature(air, rate):
        steel = []
        for t, anew in enumerate(fresh):
            if anew:
                steel.append(air[:, t])
            else:
                steel.append(steel[-1] + rate * (air[:, t] - steel[-1]))

        def grad(*args, upstream=None):
            g = _given(args, upstream)
            carry = ops.zeros_like(rate)
            d_rate = ops.zeros_like(rate)
            d_air = []
            for t in range(len(fresh) - 1, 0, -1):
                carry = carry + g[:, t]
                d_air.append(rate * carry)
                if not fresh[t]:
                    d_rate = d_rate + carry * (air[:, t] - steel[t - 1])
                    carry = (1.0 - rate) * carry
                else:
                    carry = ops.zeros_like(carry)
            d_air.append(carry + g[:, 0])
            return ops.stack(d_air[::-1], axis=1), d_rate

        return ops.stack(steel, axis=1), grad

    return steel_temperature


def correct_weight(raw, steel, per_degree, reference=15.0):
    """Takes the drift off; per_degree (hives,) is the relative change of the reading per kelvin."""
    return raw / (1.0 + per_degree[:, None] * (steel - reference))


class StoreLedger:
    """Honey stores of each hive from day to day.

    Every day a part of the stores is robbed, the nectar that came in is thickened to honey, and the bees eat. Stores end at
    nothing and at the capacity of the comb.

        ledger = StoreLedger(Colony())
        stores = ledger(start, nectar, thickening, eaten)

    start (hives,) kg; nectar (hives, days) kg; thickening (hives,) kg honey per kg nectar, or () if one number does
    for the whole apiary; eaten (days,) kg, the same for all hives. Result (hives, days).
    """

    def __init__(self, colony=Colony()):
        self.colony = colony
        self._run = ops.custom_gradient(self.day_by_day)

    def __call__(self, start, nectar, thickening, eaten):
        return self._run(start, nectar, thickening, eaten)

    def day_by_day(self, start, nectar, thickening, eaten):
        full, kept = self.colony.comb_capacity, 1.0 - self.colony.robbing
        days = nectar.shape[1]
        stores, inside = [], []
        now = start
        for day in range(days):
            now = kept * now + thickening * nectar[:, day] - eaten[day]
            inside.append(ops.cast(ops.logical_and(now > 0.0, now < full), nectar.dtype))
            now = ops.clip(now, 0.0, full)
            stores.append(now)

        def grad(*args, upstream=None):
            g = _given(args, upstream)
            carry = ops.zeros_like(start)
            changes = []
            for day in range(days - 1, -1, -1):
                change = (carry + g[:, day]) * inside[day]
                changes.append(change)
                carry = kept * change
            change = ops.stack(changes[::-1], axis=1)
            if len(thickening.shape):
                d_nectar = thickening[:, None] * change
                d_thick = ops.sum(change * nectar, axis=1)
            else:
                d_nectar = thickening * change
                d_thick = ops.sum(change * nectar)
            return carry, d_nectar, d_thick, -ops.sum(change, axis=0)

        return ops.stack(stores, axis=1), grad
