'''Sums that come up around the kitchen table: the loan, the tax, the shared till, and who grumbles.'''
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

PERSONAL_ALLOWANCE = 12_000.0
TAPER_FROM = 90_000.0
BANDS = np.array([0.0, 30_000.0, 80_000.0])     # of the income above the allowance
RATES = np.array([0.20, 0.38, 0.45])


# -- loan ------------------------------------------------------------------------------------------
def _series(i, n):
    q = n * n - 1.0
    f = (1.0 + i * ((n + 1.0) / 2.0 + i * (q / 12.0 - i * q / 24.0))) / n
    df = ((n + 1.0) / 2.0 + i * (q / 6.0 - i * q / 8.0)) / n
    return f, df


def _annuity(i, n):
    """Level payment per unit of loan at periodic rate i over n periods, and its slope in i."""
    tiny = jnp.abs(n * i) < 1e-2
    j = jnp.where(tiny, 1.0, i)
    gone = -jnp.expm1(-n * jnp.log1p(j))
    f = j / gone
    df = (gone - j * n * (1.0 - gone) / (1.0 + j)) / gone**2
    fs, dfs = _series(i, n)
    return jnp.where(tiny, fs, f), jnp.where(tiny, dfs, df)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def level_payment(principal, annual_rate, months):
    """Monthly instalment. Interest-free (annual_rate 0) loans are fine: principal / months.

    principal and annual_rate broadcast against each other; months is an int.
    """
    return principal * _annuity(annual_rate / 12.0, months)[0]


@level_payment.defjvp
def _level_jvp(months, primals, tangents):
    principal, rate = primals
    dp, dr = tangents
    f, df = _annuity(rate / 12.0, months)
    return principal * f, f * dp + principal * df / 12.0 * dr


# -- tax -------------------------------------------------------------------------------------------
def _tax_one(income):
    allowance = jnp.clip(PERSONAL_ALLOWANCE - 0.5 * jnp.maximum(income - TAPER_FROM, 0.0), 0.0)
    taxable = jnp.maximum(income - allowance, 0.0)
    top = np.append(BANDS[1:], np.inf)
    in_band = jnp.clip(taxable[..., None] - BANDS, 0.0, top - BANDS)
    return (in_band * RATES).sum(-1)


def _marginal(income):
    fading = (income > TAPER_FROM) & (income < TAPER_FROM + 2.0 * PERSONAL_ALLOWANCE)
    allowance = jnp.clip(PERSONAL_ALLOWANCE - 0.5 * jnp.maximum(income - TAPER_FROM, 0.0), 0.0)
    taxable = income - allowance
    band = jnp.searchsorted(jnp.asarray(BANDS), taxable, side="left") - 1
    rate = jnp.where(taxable > 0, jnp.asarray(RATES)[jnp.maximum(band, 0)], 0.0)
    return rate * jnp.where(fading, 1.5, 1.0)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def income_tax(income, filing="single"):
    """Yearly tax on each income of the array.

    filing: "single", or "joint", where the couple's income is halved, each half is taxed as a single's, and
    the two taxes are added.
    """
    income = jnp.asarray(income)
    if filing == "joint":
        return 2.0 * _tax_one(0.5 * income)
    return _tax_one(income)


@income_tax.defjvp
def _income_tax_jvp(filing, primals, tangents):
    (income,), (d_income,) = primals, tangents
    tax = income_tax(income, filing)
    # joint: twice the tax on a half, so the factors cancel
    return tax, (_marginal(jnp.asarray(income)) * d_income).astype(tax.dtype)


# -- the shared till -----------------------------------------------------------------------------------
def make_shared_till(item_ids, sharers):
    """Closes over a month of receipts.

    item_ids: the price list entry of each receipt line (the same things are bought week after week).
    sharers:  lines x people, truthy where a person takes part in a line. A line nobody claims is
              paid by all people alike.

    Returns shared_till(prices, surcharge) -> what each person owes; surcharge is a fraction on top.
    """
    item_ids = np.asarray(item_ids)
    part = np.asarray(sharers, dtype=float)
    part = np.where(part.sum(1, keepdims=True) == 0, 1.0, part)
    part = part / part.sum(1, keepdims=True)

    @jax.custom_gradient
    def shared_till(prices, surcharge):
        lines = prices[item_ids]
        net = lines @ part.astype(prices.dtype)
        owed = net * (1.0 + surcharge)

        def pull(g):
            g_line = (1.0 + surcharge) * (part.astype(g.dtype) @ g)
            g_prices = jnp.zeros_like(prices).at[item_ids].set(g_line.astype(prices.dtype))
            return g_prices, jnp.sum(g * net)

        return owed, pull

    return shared_till


# -- grumbling -----------------------------------------------------------------------------------------
@jax.custom_gradient
def grumble_index(burdens, weights):
    """Ordered weighted average of the burdens: weights[0] goes to the person with the lightest
    burden, weights[-1] to the one with the heaviest, one person each, any number of people.
    The planner moves chores about so that it falls.
    """
    order = jnp.argsort(burdens)
    ranked = burdens[order]
    index = jnp.dot(ranked, weights) / weights.sum()

    def pull(g):
        total = weights.sum()
        g_burdens = g * weights[order] / total
        g_weights = g * (ranked - index) / total
        return g_burdens, g_weights

    return index, pull


def yearly_left_over(income, loan, rate, months, filing="single"):
    """Income after tax and a year of instalments."""
    return income - income_tax(income, filing) - 12.0 * level_payment(loan, rate, months)
