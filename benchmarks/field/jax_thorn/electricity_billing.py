"""Differentiable retail electricity bills, used to fit storage schedules against a tariff."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def _int_zero(x):
    return np.zeros(np.shape(x), jax.dtypes.float0)


def make_demand_charge(ratchet=0.0):
    """Demand charge with a ratchet.

    The returned function takes load (B, T) in kW, prior (B,), the highest demand of the previous eleven months, and rate,
    a scalar price per kW.  Billed demand is the month's peak, but not less than ratchet * prior.  Returns (B,) charges.
    """

    @jax.custom_vjp
    def demand_charge(load, prior, rate):
        return rate * jnp.maximum(load.max(axis=1), ratchet * prior)

    def fwd(load, prior, rate):
        peak = load.max(axis=1)
        billed = jnp.maximum(peak, ratchet * prior)
        return rate * billed, (load, load.argmax(axis=1), billed, peak < ratchet * prior, rate)

    def bwd(res, g):
        load, when, billed, ratcheted, rate = res
        at_peak = jax.nn.one_hot(when, load.shape[1], dtype=load.dtype)
        d_load = (g * rate)[:, None] * at_peak
        d_prior = jnp.where(ratcheted, g * rate * ratchet, 0.0)
        return d_load, d_prior, (g * billed).sum()

    demand_charge.defvjp(fwd, bwd)
    return demand_charge


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def time_of_use_bill(net_kwh, price, period, export_ratio=1.0):
    """net_kwh (B, T), price (P,), period (T,) ids -> (B,); exported energy (negative) earns export_ratio of the price."""
    paid = jnp.where(net_kwh < 0, export_ratio * net_kwh, net_kwh)
    return paid @ price[period]


def _tou_fwd(net_kwh, price, period, export_ratio):
    return time_of_use_bill(net_kwh, price, period, export_ratio), (net_kwh, price, period)


def _tou_bwd(export_ratio, res, g):
    net_kwh, price, period = res
    slope = jnp.where(net_kwh < 0, export_ratio, 1.0)
    d_net = g[:, None] * price[period] * slope
    d_price = jax.ops.segment_sum(g @ net_kwh, period, price.shape[0])
    return d_net, d_price, _int_zero(period)


time_of_use_bill.defvjp(_tou_fwd, _tou_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def reactive_surcharge(kw, kvar, pf_min=0.9, slope=1.0):
    # kw > 0
    pf = kw / jnp.hypot(kw, kvar)
    return slope * jnp.maximum(pf_min / pf - 1.0, 0.0)


@reactive_surcharge.defjvp
def _rs_jvp(pf_min, slope, primals, tangents):
    kw, kvar = primals
    t_kw, t_kvar = tangents
    kva = jnp.hypot(kw, kvar)
    out = reactive_surcharge(kw, kvar, pf_min, slope)
    k = jnp.where(pf_min * kva > kw, slope * pf_min, 0.0)
    tan = kvar / kw
    rate = k * kvar / (kw * kva)
    return out, rate * (t_kvar - tan * t_kw)


class Tariff:
    def __init__(self, ratchet=0.6, export_ratio=0.4, pf_min=0.9):
        self.demand = make_demand_charge(ratchet)
        self.export_ratio = export_ratio
        self.pf_min = pf_min

    def bill(self, net_kwh, kvar, prior, book):
        energy = time_of_use_bill(net_kwh, book["price"], book["period"], self.export_ratio)
        demand = self.demand(net_kwh, prior, book["demand_rate"])
        extra = reactive_surcharge(jnp.abs(net_kwh).mean(axis=1) + 1e-3, kvar, self.pf_min)
        return energy * (1.0 + extra) + demand
