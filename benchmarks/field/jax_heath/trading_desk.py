"""Desk analytics with closed-form sensitivities."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

_NEWTON_STEPS = 50


def _solve_rate(price, cashflows, times):
    """Continuously compounded rate at which the flows are worth ``price``."""

    def body(_, r):
        pv = cashflows * jnp.exp(-r[..., None] * times)
        return r + (jnp.sum(pv, -1) - price) / jnp.sum(times * pv, -1)

    return jax.lax.fori_loop(0, _NEWTON_STEPS, body, jnp.zeros_like(price))


@functools.partial(jax.custom_vjp, nondiff_argnames=("freq",))
def bond_yield(price, cashflows, times, freq=2):
    """Yield to maturity.

    Solves ``sum_k c_k (1 + y/freq)^(-freq t_k) = price`` for ``y``.

    Args:
      price: dirty prices, shape ``(...)``, positive.
      cashflows: ``(..., T)`` non-negative payments, at least one of them
        positive; pad short bonds with zero payments.
      times: ``(T,)`` payment times in years, shared by all bonds, positive.
      freq: compounding periods a year; 0 gives the continuous yield.

    Returns:
      Yields, shape ``(...)``.
    """
    return _yield_fwd(price, cashflows, times, freq)[0]


def _yield_fwd(price, cashflows, times, freq):
    rate = _solve_rate(price, cashflows, times)
    y = freq * jnp.expm1(rate / freq) if freq else rate
    return y, (rate, cashflows, times)


def _yield_bwd(freq, res, g):
    rate, cashflows, times = res
    disc = jnp.exp(-rate[..., None] * times)
    dollar_duration = jnp.sum(times * cashflows * disc, axis=-1)
    if freq:
        g = g * jnp.exp(rate / freq)
    g = g / dollar_duration
    d_flow = g[..., None] * disc
    d_time = -(g * rate)[..., None] * cashflows * disc
    return -g, d_flow, d_time.reshape(-1, times.shape[0]).sum(axis=0)


bond_yield.defvjp(_yield_fwd, _yield_bwd)


@jax.custom_jvp
def crra_equivalent(wealth, probs, gamma=2.0):
    """Certainty equivalent of terminal wealth under power utility.

    Args:
      wealth: ``(..., S)`` positive outcomes.
      probs: ``(S,)`` non-negative scenario weights. They are normalised here,
        so counts do as well.
      gamma: relative risk aversion, a scalar. 0 is risk neutral, 1 is log
        utility.

    Returns:
      ``(...)`` certainty equivalents.
    """
    p = probs / jnp.sum(probs)
    logw = jnp.log(wealth)
    rho = 1.0 - gamma
    is_log = rho == 0.0
    log_moment = jax.nn.logsumexp(rho * logw, axis=-1, b=p)
    return jnp.exp(jnp.where(is_log, logw @ p, log_moment / jnp.where(is_log, 1.0, rho)))


@crra_equivalent.defjvp
def _crra_equivalent_jvp(primals, tangents):
    wealth, probs, gamma = primals
    wealth_dot, probs_dot, gamma_dot = tangents
    ce = crra_equivalent(wealth, probs, gamma)

    total = jnp.sum(probs)
    p = probs / total
    logw = jnp.log(wealth)
    rho = 1.0 - gamma
    is_log = rho == 0.0
    safe_rho = jnp.where(is_log, 1.0, rho)
    log_moment = jax.nn.logsumexp(rho * logw, axis=-1, b=p)
    tilt = jnp.exp(rho * logw - log_moment[..., None])  # q / p, all ones for log utility
    q = p * tilt

    from_wealth = jnp.sum(q * wealth_dot / wealth, axis=-1)
    from_probs = jnp.where(
        is_log,
        logw @ (probs_dot / total),
        (tilt - 1.0) @ (probs_dot / total) / safe_rho,
    )
    mean_log = jnp.sum(q * logw, axis=-1)
    var_log = jnp.sum(q * (logw - mean_log[..., None]) ** 2, axis=-1)
    from_gamma = gamma_dot * jnp.where(
        is_log, -0.5 * var_log, (log_moment / safe_rho - mean_log) / safe_rho
    )
    return ce, ce * (from_wealth + from_probs + from_gamma)


def make_execution_cost(eta: float, alpha: float = 0.6, perm: float = 0.0, risk: float = 0.0):
    """Almgren-Chriss style cost of a trading schedule.

    Returns ``cost(trades, volume, sigma)`` where

    * ``trades`` (N,) are signed quantities, positive buys and negative sells
      (the two may be mixed in a round trip),
    * ``volume`` (N,) is the market volume of each interval, positive,
    * ``sigma`` is the volatility per interval.

    The cost is temporary impact ``eta |v| (|v| / volume)^alpha``, permanent
    impact ``perm/2 (sum v)^2`` and ``risk sigma^2`` times the sum of squared
    quantities that are still to be traded after each interval.
    """

    @jax.custom_gradient
    def cost(trades, volume, sigma):
        size = jnp.abs(trades)
        part = (size / volume) ** alpha
        left = jnp.sum(trades) - jnp.cumsum(trades)
        net = jnp.sum(trades)
        temporary = eta * jnp.sum(size * part)
        value = temporary + 0.5 * perm * net**2 + risk * sigma**2 * jnp.sum(left**2)

        def grad(g):
            d_temporary = eta * (1.0 + alpha) * part
            # trade j is still open after every earlier interval
            d_risk = 2.0 * risk * sigma**2 * (jnp.cumsum(left) - left)
            d_trades = d_temporary + perm * net + d_risk
            d_volume = -eta * alpha * size * part / volume
            d_sigma = 2.0 * risk * sigma * jnp.sum(left**2)
            return g * d_trades, g * d_volume, g * d_sigma

        return value, grad

    return cost


def optimise_schedule(quantity, volume, sigma, *, eta=0.1, risk=1e-3, steps=500, lr=1e-2):
    """Split ``quantity`` over the intervals by projected gradient descent."""
    cost = make_execution_cost(eta, risk=risk)
    n = volume.shape[0]
    v = jnp.full((n,), quantity / n)

    @jax.jit
    def step(v):
        g = jax.grad(cost)(v, volume, sigma)
        return v - lr * (g - jnp.mean(g))

    for _ in range(steps):
        v = step(v)
    return v
