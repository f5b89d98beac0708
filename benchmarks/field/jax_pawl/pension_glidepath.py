"""Life-cycle pension plans: the equity share by age, the pot, and what it is worth to a saver."""
from functools import partial
from typing import NamedTuple, Tuple

import jax
import jax.numpy as jnp


class Plan(NamedTuple):
    knots: jax.Array       # ages at which the trustees fix the share, rising
    shares: jax.Array      # equity share at those ages
    paid_in: jax.Array     # contributions, one a year
    opening: jax.Array     # pot transferred in


# ---------------------------------------------------------------- share by age

@jax.custom_vjp
def equity_share(age, knots, shares):
    """Equity share at each age: linear between the knots, level before the first
    and after the last. `age` may have any shape; at least two knots."""
    return _share_fwd(age, knots, shares)[0]


def _locate(age, knots):
    j = jnp.clip(jnp.searchsorted(knots, age, side="right") - 1, 0, knots.shape[0] - 2)
    width = knots[j + 1] - knots[j]
    f = (age - knots[j]) / width
    return j, width, jnp.clip(f, 0, 1), (f >= 0) & (f <= 1)


def _share_fwd(age, knots, shares):
    j, _, f, _ = _locate(age, knots)
    return (1 - f) * shares[j] + f * shares[j + 1], (age, knots, shares)


def _share_bwd(res, g):
    age, knots, shares = res
    j, width, f, between = _locate(age, knots)
    slope = jnp.where(between, (shares[j + 1] - shares[j]) / width, 0)
    d_age = g * slope
    d_knots = jnp.zeros_like(knots).at[j].add(-d_age * (1 - f)).at[j + 1].add(-d_age * f)
    d_shares = jnp.zeros_like(shares).at[j].add(g * (1 - f)).at[j + 1].add(g * f)
    return d_age, d_knots, d_shares


equity_share.defvjp(_share_fwd, _share_bwd)


# ------------------------------------------------------------------- the pot

@jax.custom_vjp
def grow_pot(opening, paid_in, returns) -> Tuple[jax.Array, jax.Array]:
    """Pot of one saver in many scenarios.

    Parameters
    ----------
    opening : number
        Pot at the start.
    paid_in : (years,)
        Paid at the start of each year, the same in all scenarios.
    returns : (years, scenarios)
        Net return of each year.

    Returns
    -------
    final : (scenarios,)
        Pot at retirement.
    path : (years, scenarios)
        Pot at the end of each year.
    """
    return _grow_fwd(opening, paid_in, returns)[0]


def _grow_fwd(opening, paid_in, returns):
    def year(pot, item):
        c, r = item
        invested = pot + c
        pot = invested * (1 + r)
        return pot, (pot, invested)

    first = jnp.full(returns.shape[1:], opening, returns.dtype)
    final, (path, invested) = jax.lax.scan(year, first, (paid_in, returns))
    return (final, path), (returns, invested)


def _grow_bwd(res, cotangents):
    returns, invested = res
    g_final, g_path = cotangents

    def year(lam, item):
        g, r, base = item
        d_r = lam * base
        lam = lam * (1 + r)
        return lam + g, (lam.sum(), d_r)

    lam, (d_paid, d_returns) = jax.lax.scan(
        year, g_final, (g_path, returns, invested), reverse=True)
    return lam.sum(), d_paid, d_returns


grow_pot.defvjp(_grow_fwd, _grow_bwd)


# ------------------------------------------------------ worth of a distribution

def _utility(c, aversion):
    return jnp.log(c) if aversion == 1 else c ** (1 - aversion) / (1 - aversion)


def _inverse(u, aversion):
    return jnp.exp(u) if aversion == 1 else ((1 - aversion) * u) ** (1 / (1 - aversion))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def sure_income(incomes, draws, aversion):
    """The sure income that a saver would take for an uncertain one.

    `incomes` are the possible yearly incomes, `draws` says how often each came
    up in the simulation (counts or shares, not necessarily adding to one),
    `aversion` is the relative risk aversion; 1 is logarithmic utility.
    """
    return _sure_fwd(incomes, draws, aversion)[0]


def _sure_fwd(incomes, draws, aversion):
    total = draws.sum()
    mean_u = (draws * _utility(incomes, aversion)).sum() / total
    sure = _inverse(mean_u, aversion)
    return sure, (incomes, draws, total, mean_u, sure)


def _sure_bwd(aversion, res, g):
    incomes, draws, total, mean_u, sure = res
    lever = g * sure ** aversion
    d_incomes = lever * draws / total * incomes ** -aversion
    d_draws = lever * (_utility(incomes, aversion) - mean_u)
    return d_incomes, d_draws


sure_income.defvjp(_sure_fwd, _sure_bwd)


def plan_worth(plan: Plan, equity, bonds, ages, aversion=3.0, annuity_rate=0.05):
    """Worth of a plan when the equity and bond returns are (years, scenarios)."""
    w = equity_share(ages, plan.knots, plan.shares)[:, None]
    final, _ = grow_pot(plan.opening, plan.paid_in, w * equity + (1 - w) * bonds)
    even = jnp.full(final.shape, 1 / final.size, final.dtype)
    return sure_income(final * annuity_rate, even, aversion)
