"""Differentiable performance and lending measures.

Everything here is written for arrays with time on the axis named in the
function, and used inside ``fit_weights`` below.
"""
from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp
from jax import lax


def _running_peak(p):
    peak = lax.cummax(p, axis=0)
    before = jnp.concatenate([jnp.zeros_like(p[:1]), peak[:-1]], axis=0)
    steps = jnp.arange(p.shape[0]).reshape((-1,) + (1,) * (p.ndim - 1))
    # on equal peaks the first one carries the slope
    where = lax.cummax(jnp.where(p > before, steps, 0), axis=0)
    return peak, where


@jax.custom_vjp
def ulcer_index(prices):
    peak = lax.cummax(prices, axis=0)
    return 100.0 * jnp.sqrt(jnp.mean((1.0 - prices / peak) ** 2, axis=0))


def _ulcer_fwd(prices):
    peak, where = _running_peak(prices)
    down = 1.0 - prices / peak
    rms = jnp.sqrt(jnp.mean(down**2, axis=0))
    return 100.0 * rms, (prices, peak, where, rms)


def _ulcer_bwd(res, g):
    prices, peak, where, rms = res
    n = prices.shape[0]
    down = 1.0 - prices / peak
    coef = jnp.where(rms > 0, 100.0 * g / (n * jnp.where(rms > 0, rms, 1.0)), 0.0) * down
    grad = (-coef / peak).reshape(n, -1)
    at_peak = (coef * prices / peak**2).reshape(n, -1)
    cols = jnp.broadcast_to(jnp.arange(grad.shape[1]), grad.shape)
    grad = grad.at[where.reshape(n, -1), cols].add(at_peak)
    return (grad.reshape(prices.shape),)


ulcer_index.defvjp(_ulcer_fwd, _ulcer_bwd)


@jax.custom_vjp
def omega_ratio(returns: jax.Array, threshold: jax.Array, weights: jax.Array) -> jax.Array:
    """Omega ratio of a return series.

    The ratio of the weighted gains above a threshold to the weighted losses
    below it,

        Omega = sum_t w_t max(r_t - L, 0) / sum_t w_t max(L - r_t, 0).

    Parameters
    ----------
    returns : array, shape (..., T)
        Period returns, at least one of them below the threshold.
    threshold : array, shape (...)
        Minimum acceptable return, one per series.
    weights : array, shape (T,)
        Positive observation weights shared by all series, for example an
        exponential decay. They need not sum to one.

    Returns
    -------
    array, shape (...)
        Omega. Differentiable in all three arguments wherever no return equals
        the threshold.
    """
    excess = returns - threshold[..., None]
    gain = jnp.sum(weights * jnp.maximum(excess, 0.0), axis=-1)
    loss = jnp.sum(weights * jnp.maximum(-excess, 0.0), axis=-1)
    return gain / loss


def _omega_fwd(returns, threshold, weights):
    w = weights / jnp.sum(weights)
    excess = returns - threshold[..., None]
    gain = jnp.sum(w * jnp.maximum(excess, 0.0), axis=-1)
    loss = jnp.sum(w * jnp.maximum(-excess, 0.0), axis=-1)
    return gain / loss, (excess, weights, gain / loss, loss)


def _omega_bwd(res, g):
    excess, weights, omega, loss = res
    total = jnp.sum(weights)
    k = (g / loss)[..., None]
    om = omega[..., None]
    slope = jnp.where(excess > 0, 1.0, om * (excess < 0))
    g_ret = k * slope * weights / total
    g_thr = -k[..., 0] * jnp.mean(slope, axis=-1)
    per_obs = k * (jnp.maximum(excess, 0.0) - om * jnp.maximum(-excess, 0.0)) / total
    g_w = per_obs.reshape(-1, weights.shape[0]).sum(axis=0)
    return g_ret, g_thr, g_w


omega_ratio.defvjp(_omega_fwd, _omega_bwd)


def _annuity(rate, periods, due):
    """Level payment per unit of principal; `due` pays at the start of periods."""
    small = jnp.abs(rate) * periods < 1e-4
    r = jnp.where(small, 1.0, rate)
    exact = r / -jnp.expm1(-periods * jnp.log1p(r))
    n = float(periods)
    series = (1.0 + 0.5 * (n + 1) * rate + (n * n - 1) / 12.0 * rate**2) / n
    pay = jnp.where(small, series, exact)
    return pay / (1.0 + rate) if due else pay


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def loan_payment(principal, rate, periods: int, due: bool = False):
    """Level payment amortising `principal` over `periods` at `rate` per period (> -1, zero allowed); `due`: paid in advance."""
    return principal * _annuity(rate, periods, due)


@loan_payment.defjvp
def _loan_payment_jvp(periods, due, primals, tangents):
    principal, rate = primals
    d_principal, d_rate = tangents
    unit = _annuity(rate, periods, due)
    n = float(periods)
    small = jnp.abs(rate) * n < 1e-4
    r = jnp.where(small, 1.0, rate)
    growth = jnp.exp(-n * jnp.log1p(r))
    log_slope = 1.0 / r - n * growth / ((1.0 + r) * -jnp.expm1(-n * jnp.log1p(r)))
    if due:
        log_slope = log_slope - 1.0 / (1.0 + r)
    near_zero = 0.5 * (n + 1) / n + (n * n - 1) / (6.0 * n) * rate
    d_unit = jnp.where(small, near_zero, unit * log_slope)
    return principal * unit, d_principal * unit + principal * d_unit * d_rate


@jax.custom_vjp
def leverage_cap(weights: jax.Array, limit: jax.Array) -> jax.Array:
    """Scale portfolios so that gross exposure does not exceed a limit.

    The last axis of ``weights`` holds the positions. Portfolios whose sum of
    absolute positions is above ``limit`` are scaled down to it.

    Notes
    -----
    The backward pass is on purpose not the derivative of this function: the
    scaling is treated as a straight-through operation, so the cotangent reaches
    ``weights`` unchanged, and ``limit`` (a mandate constant) gets zero. The
    true Jacobian removes the radial direction and the optimiser then never
    shrinks an over-levered book.
    """
    gross = jnp.sum(jnp.abs(weights), axis=-1, keepdims=True)
    return weights * jnp.minimum(1.0, limit / jnp.maximum(gross, 1e-12))


def _cap_fwd(weights, limit):
    return leverage_cap(weights, limit), jnp.zeros_like(limit)


def _cap_bwd(zero, g):
    return g, zero


leverage_cap.defvjp(_cap_fwd, _cap_bwd)


def fit_weights(asset_returns, steps: int = 50, lr: float = 0.05, half_life: Optional[float] = None):
    """Gradient ascent on log Omega less an ulcer penalty."""
    t, n = asset_returns.shape
    decay = jnp.ones(t) if half_life is None else 0.5 ** (jnp.arange(t)[::-1] / half_life)

    def objective(w):
        book = asset_returns @ leverage_cap(w, jnp.asarray(1.5))
        wealth = jnp.cumprod(1.0 + book)
        return -jnp.log(omega_ratio(book, jnp.asarray(0.0), decay)) + 0.01 * ulcer_index(wealth)

    step = jax.jit(lambda w: w - lr * jax.grad(objective)(w))
    w = jnp.full((n,), 1.0 / n)
    for _ in range(steps):
        w = step(w)
    return leverage_cap(w, jnp.asarray(1.5))
