"""Pricing and risk terms, plus the loss of the quantile forecaster that feeds them."""
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm


def _d2(spot, strike, vol, tau, rate, div):
    return (jnp.log(spot / strike) + (rate - div - 0.5 * vol**2) * tau) / (vol * jnp.sqrt(tau))


@jax.custom_jvp
def digital_call(spot, strike, vol, tau, rate, div=0.0):
    return jnp.exp(-rate * tau) * norm.cdf(_d2(spot, strike, vol, tau, rate, div))


@digital_call.defjvp
def _digital_jvp(primals, tangents):
    spot, strike, vol, tau, rate, div = primals
    ds, dk, dv, dt, dr, dq = tangents
    root = jnp.sqrt(tau)
    d2 = _d2(spot, strike, vol, tau, rate, div)
    df = jnp.exp(-rate * tau)
    cdf, pdf = norm.cdf(d2), norm.pdf(d2)
    dd2 = (ds / spot - dk / strike) / (vol * root)
    dd2 = dd2 - (d2 / vol + root) * dv  # vanna-like term
    dd2 = dd2 + (dr - dq) * root / vol
    dd2 = dd2 + (rate - 0.5 * vol**2 - jnp.log(spot / strike) / tau) / (2.0 * vol * root) * dt
    return df * cdf, df * (pdf * dd2 - cdf * (rate * dt + tau * dr))


class Schedule(NamedTuple):
    accrual: jax.Array  # [swaps, periods]
    n_periods: jax.Array  # [swaps] int, the rest is padding


@jax.custom_vjp
def par_swap_rate(discount, schedule):
    return _swap_fwd(discount, schedule)[0]


def _swap_fwd(discount, schedule):
    accrual, n = schedule
    live = jnp.arange(accrual.shape[1])[None, :] < n[:, None]
    annuity = jnp.sum(jnp.where(live, accrual * discount, 0.0), axis=1)
    last = jnp.take(discount, n - 1)
    rate = (1.0 - last) / annuity
    return rate, (discount, accrual, n, live, annuity, rate)


def _swap_bwd(res, g):
    discount, accrual, n, live, annuity, rate = res
    h = g / annuity
    g_ann = jnp.where(live, -(h * rate)[:, None], 0.0)
    g_disc = jnp.sum(g_ann * accrual, axis=0)
    g_disc = g_disc.at[n - 1].add(-h)  # final notional
    return g_disc, Schedule(g_ann * discount, None)


par_swap_rate.defvjp(_swap_fwd, _swap_bwd)


@jax.custom_vjp
def tracking_error(weights, bench, cov):
    active = weights - bench
    m = cov @ active
    te = jnp.sqrt(active @ m)
    return te, active * m / te


def _te_fwd(weights, bench, cov):
    active = weights - bench
    m = cov @ active
    te = jnp.sqrt(active @ m)
    return (te, active * m / te), (active, m, te)


def _te_bwd(res, g):
    active, m, te = res
    g_te, g_contrib = g
    h = g_contrib / te
    # contrib = active * (cov @ active) / te
    g_te = g_te - jnp.sum(h * active * m) / te
    g_active = h * m + g_te * m / te
    g_cov = jnp.outer(h * active, active) + 0.5 * g_te / te * jnp.outer(active, active)
    return g_active, -g_active, g_cov


tracking_error.defvjp(_te_fwd, _te_bwd)


def make_crossing_penalty(margin: float = 0.0, power: int = 2) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Penalty mean_b w_b sum_q relu(z[b,q] - z[b,q+1] + margin)**power on quantile crossing, for z [batch, quantiles], w [batch], power >= 2."""

    @jax.custom_gradient
    def penalty(z, w):
        gap = jnp.maximum(z[:, :-1] - z[:, 1:] + margin, 0.0)
        rows = jnp.sum(gap**power, axis=1)

        def pullback(g):
            scale = g / z.shape[0]
            d = scale * w[:, None] * power * gap ** (power - 1)
            gz = jnp.pad(d, ((0, 0), (0, 1))) - jnp.pad(d, ((0, 0), (1, 0)))
            return gz, scale * rows

        return jnp.mean(w * rows), pullback

    return penalty


def forecast_loss(z, y, taus, w, margin=0.01):
    err = y[:, None] - z
    pin = jnp.mean(jnp.maximum(taus * err, (taus - 1.0) * err))
    return pin + make_crossing_penalty(margin)(z, w)
