"""Loss reserving: development factors, current cost, expected loss ratios."""

from __future__ import annotations

import dataclasses
from typing import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Book:
    """A book of business.

    Attributes:
        triangle: Cumulative paid losses, `[origin, age]`.
        known: True where a cell of the triangle has been observed.
        latest: Last observed loss of each cohort, `[cohort]`.
        age: Age of each cohort as an index into the factors, `[cohort]`.
        premium: On-level premium, `[cohort]`.
    """

    triangle: Array
    known: Array
    latest: Array
    age: Array
    premium: Array


@jax.custom_vjp
def development_factors(triangle: Array, known: Array) -> Array:
    """Volume-weighted age-to-age factors.

    Args:
        triangle: Cumulative losses, `[origin, age]`, positive.
        known: Boolean, same shape. A cell is only known if all the earlier
            cells of its origin year are.

    Returns:
        Factors, `[age - 1]`.
    """
    return _development_fwd(triangle, known)[0]


def _development_fwd(triangle, known):
    pair = known[:, 1:].astype(triangle.dtype)
    num = jnp.sum(pair * triangle[:, 1:], axis=0)
    den = jnp.sum(pair * triangle[:, :-1], axis=0)
    return num / den, (pair, num / den, den)


def _development_bwd(res, ct):
    pair, factor, den = res
    up = pair * (ct / den)
    grad = jnp.pad(up, ((0, 0), (1, 0))) - jnp.pad(up * factor, ((0, 0), (0, 1)))
    return grad, None


development_factors.defvjp(_development_fwd, _development_bwd)


def _to_ultimate(factors: Array) -> Array:
    tail = jnp.ones((1,), factors.dtype)
    return jnp.concatenate([jnp.cumprod(factors[::-1])[::-1], tail])


@jax.custom_vjp
def at_current_cost(payment: Array, index: Array, year: Array) -> Array:
    """Restates payments at the cost level of the last year of an index.

    Args:
        payment: Amounts paid, `[payment]`.
        index: Claims cost index, positive, `[year]`.
        year: Integer year in which each amount was paid, `[payment]`.

    Returns:
        Restated amounts, `[payment]`.
    """
    return payment * (index[-1] / index[year])


def _current_cost_fwd(payment, index, year):
    lift = index[-1] / index[year]
    out = payment * lift
    return out, (lift, out, index, year)


def _current_cost_bwd(res, ct):
    lift, out, index, year = res
    moved = ct * out
    d_index = jnp.zeros_like(index).at[year].set(-moved / index[year])
    d_index = d_index.at[-1].add(jnp.sum(moved) / index[-1])
    return ct * lift, d_index, None


at_current_cost.defvjp(_current_cost_fwd, _current_cost_bwd)


@jax.custom_jvp
def lognormal_limited_mean(mu: Array, sigma: Array, limit: Array) -> Array:
    """E[min(X, limit)] for X lognormal.

    Args:
        mu: Mean of log X.
        sigma: Standard deviation of log X, positive.
        limit: Policy limit, positive. All three broadcast.
    """
    d = (jnp.log(limit) - mu) / sigma
    return jnp.exp(mu + 0.5 * sigma**2) * ndtr(d - sigma) + limit * ndtr(-d)


@lognormal_limited_mean.defjvp
def _limited_mean_jvp(primals, tangents):
    mu, sigma, limit = primals
    dmu, dsigma, dlimit = tangents
    d = (jnp.log(limit) - mu) / sigma
    mean = jnp.exp(mu + 0.5 * sigma**2)
    below = mean * ndtr(d - sigma)
    above = ndtr(-d)
    edge = limit * jnp.exp(-0.5 * d * d) / jnp.sqrt(2.0 * jnp.pi)
    out = below + limit * above
    return out, below * dmu + (sigma * below - edge) * dsigma + above * dlimit


def make_cape_cod(n: int, decay: float = 0.75, past_only: bool = False) -> Callable:
    """Generalised Cape Cod expected loss ratios.

    Args:
        n: Number of origin years.
        decay: Weight lost per year of distance, in (0, 1].
        past_only: If true a year learns from itself and earlier years only.

    Returns:
        A function of `(trended, used_up)`, both `[n]`: losses on today's level,
        and premium times the fraction developed. It returns ratios, `[n]`.
    """
    lag = jnp.arange(n)[:, None] - jnp.arange(n)[None, :]
    weight = decay ** jnp.abs(lag)
    if past_only:
        weight = jnp.where(lag >= 0, weight, 0.0)

    @jax.custom_gradient
    def elr(trended, used_up):
        w = weight.astype(trended.dtype)
        exposure = w @ used_up
        ratio = (w @ trended) / exposure

        def grad(ct):
            share = ct / exposure
            return w @ share, -(w @ (share * ratio))

        return ratio, grad

    return elr


def indicated_reserve(book: Book, trend: Array, tail: Array, past_only: bool = True) -> Array:
    """Bornhuetter-Ferguson reserve with Cape Cod ratios."""
    factors = jnp.concatenate([development_factors(book.triangle, book.known), tail[None]])
    developed = 1.0 / _to_ultimate(factors)[book.age]
    elr = make_cape_cod(book.latest.shape[0], past_only=past_only)
    ratio = elr(book.latest * trend, book.premium * developed)
    return jnp.sum(ratio / trend * book.premium * (1.0 - developed))


def increased_limit_factor(mu: Array, sigma: Array, limit: Array, basic: Array) -> Array:
    return lognormal_limited_mean(mu, sigma, limit) / lognormal_limited_mean(mu, sigma, basic)


def reserve_sensitivity(book: Book, trend: Array, tail: Array) -> tuple[Array, Array]:
    """Reserve, with its derivative by the trend of every year."""
    return jax.value_and_grad(lambda t: indicated_reserve(book, t, tail))(trend)


def index_loss(log_index: Array, payment: Array, year: Array, severity: Array) -> Array:
    """Squared gap between restated payments and today's severity, to refit the index."""
    restated = at_current_cost(payment, jnp.exp(log_index), year)
    return jnp.mean((restated - severity) ** 2)
