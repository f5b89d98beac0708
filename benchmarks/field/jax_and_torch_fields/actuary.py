"""Differentiable pricing and reserving blocks for the asset-liability engine.

The engine calibrates curves, claim frequency/severity models and hedge portfolios with first order
optimisers.  The blocks here are those for which tracing through the primal was too slow, or needed too much
memory on the long (60 year, monthly) projections:

* present values of cash flow ladders under simulated forward curves,
* Black-Scholes implied volatility (a root, so implicit differentiation),
* the Tweedie quasi-likelihood used in the pure premium models,
* chain ladder ultimates,
* the tail mean (expected shortfall) of a simulated loss distribution.
"""
from __future__ import annotations

import dataclasses
from functools import partial
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm


# ---------------------------------------------------------------------------------------------------------
# Cash flow ladders
# ---------------------------------------------------------------------------------------------------------

@jax.custom_vjp
def ladder_value(forwards, cashflows, accrual):
    """Present value of every cash flow ladder in every curve scenario.

    Args:
      forwards:  (scenarios, periods) continuously compounded forward rates.
      cashflows: (policies, periods) amounts paid at the end of each period.
      accrual:   (periods,) year fraction of each period.

    Returns:
      (scenarios, policies) present values.
    """
    discount = jnp.exp(-jnp.cumsum(forwards * accrual, axis=1))
    return discount @ cashflows.T


def _ladder_fwd(forwards, cashflows, accrual):
    discount = jnp.exp(-jnp.cumsum(forwards * accrual, axis=1))
    return discount @ cashflows.T, (forwards, cashflows, accrual, discount)


def _ladder_bwd(res, ct):
    forwards, cashflows, accrual, discount = res
    d_exponent = -(ct @ cashflows) * discount
    # every period's rate discounts all later payments
    tail = jnp.cumsum(d_exponent[:, ::-1], axis=1)[:, ::-1]
    return tail * accrual, ct.T @ discount, jnp.sum(tail * forwards, axis=0)


ladder_value.defvjp(_ladder_fwd, _ladder_bwd)


# ---------------------------------------------------------------------------------------------------------
# Implied volatility
# ---------------------------------------------------------------------------------------------------------

class Market(NamedTuple):
    """Flat market: continuously compounded short rate and dividend yield."""

    rate: float = 0.0
    dividend: float = 0.0


def _d1_d2(vol, spot, strike, tau, market):
    total = vol * jnp.sqrt(tau)
    drift = (market.rate - market.dividend) * tau
    d1 = (jnp.log(spot / strike) + drift) / total + 0.5 * total
    return d1, d1 - total


def call_price(vol, spot, strike, tau, market: Market = Market()):
    d1, d2 = _d1_d2(vol, spot, strike, tau, market)
    asset = spot * jnp.exp(-market.dividend * tau)
    bond = strike * jnp.exp(-market.rate * tau)
    return asset * norm.cdf(d1) - bond * norm.cdf(d2)


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def implied_vol(price, spot, strike, tau, market=Market()):
    """Volatility at which a European call is worth ``price``.

    All four arrays broadcast; typical use is ``price`` of shape (expiries, strikes), ``spot`` a scalar,
    ``strike`` (strikes,) and ``tau`` (expiries, 1).  ``price`` has to lie strictly between the no-arbitrage
    bounds, ``max(spot e^{-q tau} - strike e^{-r tau}, 0)`` and ``spot e^{-q tau}``.
    """
    price, spot, strike, tau = jnp.broadcast_arrays(price, spot, strike, tau)

    def halve(_, bracket):
        lo, hi = bracket
        mid = 0.5 * (lo + hi)
        under = call_price(mid, spot, strike, tau, market) < price
        return jnp.where(under, mid, lo), jnp.where(under, hi, mid)

    lo, hi = jax.lax.fori_loop(0, 64, halve, (jnp.full_like(price, 1e-3), jnp.full_like(price, 5.0)))
    return 0.5 * (lo + hi)


@implied_vol.defjvp
def _implied_vol_jvp(market, primals, tangents):
    price, spot, strike, tau = primals
    d_price, d_spot, d_strike, d_tau = tangents
    vol = implied_vol(price, spot, strike, tau, market)
    d1, d2 = _d1_d2(vol, spot, strike, tau, market)
    asset = spot * jnp.exp(-market.dividend * tau)
    bond = strike * jnp.exp(-market.rate * tau)

    vega = asset * norm.pdf(d1) * jnp.sqrt(tau)
    delta = norm.cdf(d1)
    dual_delta = -jnp.exp(-market.rate * tau) * norm.cdf(d2)
    theta = (
        asset * norm.pdf(d1) * vol / (2.0 * jnp.sqrt(tau))
        - market.dividend * asset * norm.cdf(d1)
        + market.rate * bond * norm.cdf(d2)
    )
    d_vol = (d_price - delta * d_spot - dual_delta * d_strike - theta * d_tau) / vega
    return vol, d_vol


def smile_from_quotes(mid_prices, spot, strikes, expiries, rate=0.0, dividend=0.0):
    """Implied volatility surface, (expiries, strikes), of a grid of mid quotes of the same shape."""
    return implied_vol(mid_prices, spot, strikes[None, :], expiries[:, None], Market(rate, dividend))


# ---------------------------------------------------------------------------------------------------------
# Pure premium
# ---------------------------------------------------------------------------------------------------------

def make_tweedie_loss(power: float = 1.5) -> Callable:
    """Quasi-likelihood loss of a Tweedie pure premium model with 1 < ``power`` < 2.

    The loss takes ``log_premium`` (policies, covers), ``pure_cost`` (policies, covers) and ``exposure``
    (policies,), the insured years, and gives the exposure-weighted mean.
    """
    a, b = 1.0 - power, 2.0 - power

    def unit(log_premium, pure_cost):
        return jnp.exp(b * log_premium) / b - pure_cost * jnp.exp(a * log_premium) / a

    @jax.custom_vjp
    def tweedie_nll(log_premium, pure_cost, exposure):
        per_policy = jnp.mean(unit(log_premium, pure_cost), axis=1)
        return jnp.sum(exposure * per_policy) / jnp.sum(exposure)

    def fwd(log_premium, pure_cost, exposure):
        loss = tweedie_nll(log_premium, pure_cost, exposure)
        return loss, (log_premium, pure_cost, exposure, loss)

    def bwd(res, ct):
        log_premium, pure_cost, exposure, loss = res
        scale = ct * exposure[:, None] / log_premium.size
        low = jnp.exp(a * log_premium)
        d_log = scale * (jnp.exp(b * log_premium) - pure_cost * low)
        d_cost = -scale * low / a
        per_policy = jnp.mean(unit(log_premium, pure_cost), axis=1)
        d_exposure = ct * (per_policy - loss) / jnp.sum(exposure)
        return d_log, d_cost, d_exposure

    tweedie_nll.defvjp(fwd, bwd)
    return tweedie_nll


@dataclasses.dataclass(frozen=True)
class PurePremiumModel:
    """Log-linear pure premium for several covers (glass, theft, liability, ...)."""

    power: float = 1.5
    ridge: float = 0.0

    def init(self, key, features: int, covers: int):
        return {"w": 0.01 * jax.random.normal(key, (features, covers)), "b": jnp.zeros((covers,))}

    def loss(self, params, x, cost, exposure=None):
        if exposure is None:
            exposure = jnp.ones((x.shape[0],), x.dtype)
        fit = make_tweedie_loss(self.power)(x @ params["w"] + params["b"], cost, exposure)
        return fit + 0.5 * self.ridge * jnp.sum(params["w"] ** 2)


# ---------------------------------------------------------------------------------------------------------
# Reserving
# ---------------------------------------------------------------------------------------------------------

def _remaining(age, links, dtype):
    return (jnp.arange(links)[None, :] >= age[:, None]).astype(dtype)


@jax.custom_vjp
def project_ultimate(paid, log_links, log_tail, age):
    """Chain ladder ultimates.

    paid:      (lines, origins) latest diagonal of the triangle of each line of business
    log_links: (lines, links) log development factors
    log_tail:  () log tail factor, common to the lines
    age:       (origins,) int, number of links already behind each origin year, 0 <= age <= links
    returns    (lines, origins)
    """
    to_go = _remaining(age, log_links.shape[1], paid.dtype)
    return paid * jnp.exp(log_links @ to_go.T + log_tail)


def _ultimate_fwd(paid, log_links, log_tail, age):
    to_go = _remaining(age, log_links.shape[1], paid.dtype)
    growth = jnp.exp(log_links @ to_go.T + log_tail)
    return paid * growth, (paid, growth, to_go)


def _ultimate_bwd(res, ct):
    paid, growth, to_go = res
    d_log = ct * paid * growth
    return ct * growth, d_log @ to_go, jnp.sum(d_log), None


project_ultimate.defvjp(_ultimate_fwd, _ultimate_bwd)


def reserve(paid, log_links, log_tail, age):
    return jnp.sum(project_ultimate(paid, log_links, log_tail, age) - paid, axis=1)


# ---------------------------------------------------------------------------------------------------------
# Tail risk
# ---------------------------------------------------------------------------------------------------------

def _tail_weights(n, level, dtype):
    upper = jnp.arange(1, n + 1, dtype=dtype) / n
    return jnp.clip(upper - level, 0.0, 1.0 / n) / (1.0 - level)


def tail_risk(level: float = 0.95, axis: int = 0) -> Callable:
    """Expected shortfall at ``level`` along ``axis`` of equally likely simulated losses.

    The scenario that straddles the quantile counts with the part of its probability that lies beyond it.
    """

    @jax.custom_vjp
    def tail_mean(losses):
        ranked = jnp.moveaxis(jnp.sort(losses, axis=axis), axis, -1)
        return ranked @ _tail_weights(losses.shape[axis], level, losses.dtype)

    def tail_mean_fwd(losses):
        order = jnp.argsort(losses, axis=axis)
        return tail_mean(losses), order

    def tail_mean_bwd(order, ct):
        weights = _tail_weights(order.shape[axis], level, ct.dtype)
        by_scenario = weights[jnp.moveaxis(order, axis, -1)]
        return (jnp.moveaxis(by_scenario * ct[..., None], -1, axis),)

    tail_mean.defvjp(tail_mean_fwd, tail_mean_bwd)
    return tail_mean


def hedged_capital(liability, instruments, holdings, level=0.995):
    """Capital per entity: liability (scenarios, entities), instruments (scenarios, k), holdings (k, entities)."""
    return tail_risk(level)(liability - instruments @ holdings)
