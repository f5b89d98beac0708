"""Indemnities and rates of the crop programme, for calibrating farm panels."""
from collections import namedtuple
from functools import partial

import jax
import jax.numpy as jnp
from jax.ops import segment_sum

RateTable = namedtuple("RateTable", "ref_yield ref_rate exponent fixed_load")
RATIO_LOW, RATIO_HIGH = 0.5, 1.5
PLANS = ("yield", "revenue", "exclusion")


def _fold(g, like):
    like = jnp.asarray(like)
    extra = g.ndim - like.ndim
    g = g.sum(tuple(range(extra)))
    wide = tuple(i for i, n in enumerate(like.shape) if n == 1 and g.shape[i] != 1)
    return g.sum(wide, keepdims=True).astype(like.dtype)


def make_indemnity(plan):
    """Indemnity per acre.

    plan: "yield"      pays the shortfall of the yield at the projected price
          "revenue"    guarantees revenue at the higher of both prices
          "exclusion"  guarantees revenue at the projected price only
    All arguments of the returned function broadcast against each other.
    """
    if plan not in PLANS:
        raise ValueError(plan)

    @jax.custom_gradient
    def indemnity(harvested, history, level, projected, harvest_price):
        promised = level * history
        if plan == "yield":
            gap = (promised - harvested) * projected
        elif plan == "revenue":
            gap = promised * jnp.maximum(projected, harvest_price) - harvested * harvest_price
        else:
            gap = promised * projected - harvested * harvest_price
        paid = jnp.maximum(gap, 0.0)

        def pull(g):
            g = jnp.where(gap > 0, g, 0.0)
            if plan == "yield":
                d_promised = g * projected
                d_harvested = -g * projected
                d_projected = g * (promised - harvested)
                d_price = jnp.zeros_like(g)
            else:
                top = projected
                if plan == "revenue":
                    top = jnp.maximum(projected, harvest_price)
                d_promised = g * top
                d_harvested = -g * harvest_price
                d_projected = g * promised
                d_price = -g * harvested
            return (
                _fold(d_harvested, harvested),
                _fold(d_promised * level, history),
                _fold(d_promised * history, level),
                _fold(d_projected, projected),
                _fold(d_price, harvest_price),
            )

        return paid, pull

    return indemnity


class AreaPlan:
    """Pays on the acre-weighted yield of the county."""

    def __init__(self, n_counties, band=0.3):
        self.n_counties = n_counties
        self.band = band

    @staticmethod
    @partial(jax.custom_vjp, nondiff_argnums=(4, 5))
    def payment(yields, acres, trigger, county, n_counties, band):
        return _payment_fwd(yields, acres, trigger, county, n_counties, band)[0]

    def __call__(self, yields, acres, trigger, county):
        return self.payment(yields, acres, trigger, county, self.n_counties, self.band)

    def per_farm(self, yields, acres, trigger, county, sum_insured):
        return self(yields, acres, trigger, county)[county] * acres * sum_insured


def _payment_fwd(yields, acres, trigger, county, n_counties, band):
    land = segment_sum(acres, county, n_counties)
    crop = segment_sum(acres * yields, county, n_counties)
    some = land > 0
    land = jnp.where(some, land, 1.0)
    index = crop / land
    depth = (trigger - index) / (band * trigger)
    depth = jnp.where(some, depth, 0.0)
    res = (yields, acres, trigger, county, land, index, depth)
    return jnp.clip(depth, 0.0, 1.0), res


def _payment_bwd(n_counties, band, res, g):
    yields, acres, trigger, county, land, index, depth = res
    g = jnp.where((depth > 0) & (depth < 1), g, 0.0) / band
    d_trigger = g * index / trigger**2
    d_index = (-g / trigger / land)[county]
    return d_index * acres, d_index * (yields - index[county]), d_trigger, None


AreaPlan.payment.defvjp(_payment_fwd, _payment_bwd)


@jax.custom_vjp
def continuous_rate(history, table, county):
    """Base premium rate of a farm from its yield history (ratio held within limits)."""
    ratio = jnp.clip(history / table.ref_yield[county], RATIO_LOW, RATIO_HIGH)
    return table.ref_rate[county] * ratio ** table.exponent[county] + table.fixed_load[county]


def _rate_fwd(history, table, county):
    return continuous_rate(history, table, county), (history, table, county)


def _rate_bwd(res, g):
    history, table, county = res
    ref, rate, power = (c[county] for c in table[:3])
    raw = history / ref
    ratio = jnp.clip(raw, RATIO_LOW, RATIO_HIGH)
    curve = ratio**power
    d_ratio = g * rate * power * ratio ** (power - 1)
    d_ratio = jnp.where((raw > RATIO_LOW) & (raw < RATIO_HIGH), d_ratio, 0.0)
    total = partial(segment_sum, segment_ids=county, num_segments=table.ref_yield.shape[0])
    d_table = RateTable(
        ref_yield=total(-d_ratio * raw / ref),
        ref_rate=total(g * curve),
        exponent=total(g * rate * curve * jnp.log(raw)),
        fixed_load=total(g),
    )
    return d_ratio / ref, d_table, None


continuous_rate.defvjp(_rate_fwd, _rate_bwd)


def loss_ratio(table, panel, plan="revenue"):
    pay = make_indemnity(plan)(panel["harvested"], panel["history"], panel["level"],
                               panel["projected"], panel["harvest_price"])
    liability = panel["history"] * panel["level"] * panel["projected"]
    premium = continuous_rate(panel["history"][0], table, panel["county"]) * liability
    return jnp.sum(pay * panel["acres"]) / jnp.sum(premium * panel["acres"])


def calibrate(table, panel, steps=50, lr=1e-4):
    def objective(t):
        return (loss_ratio(t, panel) - 1.0) ** 2

    for _ in range(steps):
        step = jax.grad(objective)(table)
        table = RateTable(*(v - lr * d for v, d in zip(table, step)))
    return table


def main():
    key = jax.random.PRNGKey(0)
    years, farms, counties = 10, 40, 5
    a, b, c = jax.random.split(key, 3)
    history = jnp.broadcast_to(120 + 40 * jax.random.uniform(a, (farms,)), (years, farms))
    panel = dict(
        harvested=history * (0.5 + 0.8 * jax.random.uniform(b, (years, farms))),
        history=history, level=jnp.asarray(0.75),
        projected=jnp.full((years, 1), 4.1), harvest_price=3.6 + jax.random.uniform(c, (years, 1)),
        county=jnp.arange(farms) % counties, acres=jnp.full((farms,), 80.0),
    )
    table = RateTable(jnp.full((counties,), 140.0), jnp.full((counties,), 0.06),
                      jnp.full((counties,), -1.4), jnp.full((counties,), 0.01))
    table = calibrate(table, panel)
    area = AreaPlan(counties)(panel["harvested"][0], panel["acres"], jnp.full((counties,), 125.0), panel["county"])
    return table, area


if __name__ == "__main__":
    print(main())
