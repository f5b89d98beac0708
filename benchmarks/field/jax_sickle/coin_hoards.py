"""Quantitative numismatics: mint output, die links and the metal of coins.

Three small models that the fitting scripts combine into one objective.

* Hoards.  A hoard closed in year ``c`` is a snapshot of circulation: every
  earlier issue is present in proportion to what the mint struck, thinned by
  the yearly loss of coins and damped for the newest issues, which had not yet
  spread from the mint to the findspot.
* Dies.  Each struck coin carries one obverse and one reverse die. Their
  activities are estimated from the die pairs seen in a corpus.
* Fineness.  Silver content of a silver-copper coin from weighing it in air
  and immersed in a liquid (Archimedes).

Years are astronomical integers (no year zero problem). All masses in grams.
"""

from typing import Callable, Dict, NamedTuple, Sequence

import jax
import jax.numpy as jnp
import numpy as np

DENSITY_SILVER = 10.49
DENSITY_COPPER = 8.96

# Immersion liquids, g/cm3 at 20 C. The perfluorinated liquid wets better and
# gives a larger buoyancy on small coins.
LIQUIDS = {
    "water": 1.0,
    "ethanol": 0.789,
    "fc40": 1.855,
    "diethyl_phthalate": 1.118,
}

TINY = 1e-30


class Circulation(NamedTuple):
    """Parameters shared by every hoard of a region."""

    log_output: jax.Array  # one entry per issue year
    loss_rate: jax.Array
    uptake: jax.Array


class Corpus(NamedTuple):
    obverse: np.ndarray
    reverse: np.ndarray
    weight: np.ndarray


def _ages(issue_years, closing_years):
    """Age of every issue in every hoard and whether it had been struck."""
    age = closing_years[:, None] - issue_years[None, :]
    return jnp.maximum(age, 0), age >= 0


def _presence(loss_rate, uptake, age, struck):
    """Expected coins in circulation at the findspot per coin struck."""
    thinned = jnp.exp(-loss_rate * age)
    spread = -jnp.expm1(-uptake * (age + 1.0))
    return jnp.where(struck, thinned * spread, 0.0)


# -- hoards -----------------------------------------------------------------


@jax.custom_vjp
def hoard_profile(output, loss_rate, uptake, issue_years, closing_years):
    """Expected composition of hoards by year of issue.

    Args:
        output: coins struck per year of issue, shape [issues], non-negative.
        loss_rate: yearly fraction of coins leaving circulation, scalar.
        uptake: rate at which new coins reach the findspot, scalar.
        issue_years: integers, [issues].
        closing_years: integers, [hoards].

    Returns:
        Shares of shape [hoards, issues]. Rows sum to one, except for a hoard
        closed before the first issue, whose row is zero.
    """
    age, struck = _ages(issue_years, closing_years)
    mass = output * _presence(loss_rate, uptake, age, struck)
    total = jnp.sum(mass, axis=1, keepdims=True)
    return jnp.where(total > 0, mass / jnp.where(total > 0, total, 1.0), 0.0)


def _hoard_fwd(output, loss_rate, uptake, issue_years, closing_years):
    share = hoard_profile(output, loss_rate, uptake, issue_years, closing_years)
    return share, (share, output, loss_rate, uptake, issue_years, closing_years)


def _hoard_bwd(res, g):
    share, output, loss_rate, uptake, issue_years, closing_years = res
    age, struck = _ages(issue_years, closing_years)
    presence = _presence(loss_rate, uptake, age, struck)
    mass = output * presence
    total = jnp.sum(mass, axis=1, keepdims=True)
    filled = total > 0
    centred = g - jnp.sum(g * share, axis=1, keepdims=True)
    d_mass = jnp.where(filled, centred / jnp.where(filled, total, 1.0), 0.0)

    d_output = jnp.sum(d_mass * presence, axis=0)
    d_loss = -jnp.sum(d_mass * mass * age)
    reach = jnp.where(
        struck,
        output * (age + 1.0) * jnp.exp(-loss_rate * age - uptake * (age + 1.0)),
        0.0)
    d_uptake = jnp.sum(d_mass * reach)
    return d_output, d_loss, d_uptake, None, None


hoard_profile.defvjp(_hoard_fwd, _hoard_bwd)


def hoard_deviance(params: Circulation, counts, issue_years, closing_years):
    """Multinomial deviance of hoard counts [hoards, issues] (up to a constant)."""
    share = hoard_profile(jnp.exp(params.log_output), params.loss_rate,
                          params.uptake, issue_years, closing_years)
    return -2.0 * jnp.sum(counts * jnp.log(jnp.maximum(share, TINY)))


# -- dies -------------------------------------------------------------------


def corpus_from_records(records: Sequence[Dict]) -> Corpus:
    """Collects the catalogue rows of one issue.

    Every row has the keys ``obv`` and ``rev`` (die numbers) and, when the coin
    is worn or a plaster cast, a ``certainty`` below one.
    """
    return Corpus(
        obverse=np.array([r["obv"] for r in records], np.int32),
        reverse=np.array([r["rev"] for r in records], np.int32),
        weight=np.array([r.get("certainty", 1.0) for r in records]),
    )


def make_die_loglik(corpus: Corpus) -> Callable:
    """Log-likelihood of a corpus in the log-activities of its dies.

    Obverse and reverse dies are taken to be paired at random (the die box),
    so the two sides have separate softmax normalisers. The tables of die
    numbers stay closed over as constants.
    """
    obverse = jnp.asarray(corpus.obverse)
    reverse = jnp.asarray(corpus.reverse)

    @jax.custom_gradient
    def die_loglik(obverse_activity, reverse_activity):
        weight = jnp.asarray(corpus.weight, obverse_activity.dtype)
        coins = jnp.sum(weight)
        norm_o = jax.nn.logsumexp(obverse_activity)
        norm_r = jax.nn.logsumexp(reverse_activity)
        paired = obverse_activity[obverse] + reverse_activity[reverse]
        value = jnp.sum(weight * paired) - coins * (norm_o + norm_r)

        def grad(g):
            seen_o = jnp.zeros_like(obverse_activity).at[obverse].add(weight)
            seen_r = jnp.zeros_like(reverse_activity).at[reverse].set(weight)
            return (g * (seen_o - coins * jnp.exp(obverse_activity - norm_o)),
                    g * (seen_r - coins * jnp.exp(reverse_activity - norm_r)))

        return value, grad

    return die_loglik


def esty_coverage(counts):
    """Share of the issue struck from dies already seen (Esty's coverage)."""
    counts = np.asarray(counts)
    singles = np.sum(counts == 1)
    return 1.0 - singles / max(counts.sum(), 1)


def fit_dies(corpus: Corpus, obverse_dies: int, reverse_dies: int, steps=200, rate=0.05,
             ridge=1e-2):
    """Penalised maximum likelihood by gradient ascent."""
    loglik = make_die_loglik(corpus)

    def objective(params):
        penalty = sum(jnp.sum(p ** 2) for p in jax.tree_util.tree_leaves(params))
        return loglik(params["obv"], params["rev"]) - ridge * penalty

    params = {"obv": jnp.zeros(obverse_dies), "rev": jnp.zeros(reverse_dies)}
    slope = jax.jit(jax.grad(objective))
    for _ in range(steps):
        params = jax.tree_util.tree_map(lambda p, d: p + rate * d, params, slope(params))
    return params


# -- metal ------------------------------------------------------------------


@jax.custom_jvp
def fineness_from_weighing(air, immersed, liquid_density):
    """Silver share by mass of a silver-copper coin.

    Parameters
    ----------
    air, immersed : arrays
        Mass readings in air and in the liquid, grams.
    liquid_density : array or scalar
        Density of the liquid at the temperature of the bath, g/cm3.

    Notes
    -----
    Specific volumes of the two metals add up, so the fineness is linear in the
    coin's specific volume.
    """
    density = air * liquid_density / (air - immersed)
    span = 1.0 / DENSITY_COPPER - 1.0 / DENSITY_SILVER
    return (1.0 / DENSITY_COPPER - 1.0 / density) / span


@fineness_from_weighing.defjvp
def _fineness_jvp(primals, tangents):
    air, immersed, liquid_density = primals
    d_air, d_immersed, d_liquid = tangents
    lift = air - immersed
    density = air * liquid_density / lift
    d_density = ((air * d_immersed - immersed * d_air) / lift ** 2
                 + air / lift * d_liquid)
    span = 1.0 / DENSITY_COPPER - 1.0 / DENSITY_SILVER
    out = (1.0 / DENSITY_COPPER - 1.0 / density) / span
    return out, d_density / (density ** 2 * span)


def fineness_report(readings, liquid="water", scale_error=0.002):
    """Fineness with its standard error from the error of the balance.

    `readings` is a dict with the arrays ``air`` and ``immersed``.
    """
    rho = jnp.asarray(LIQUIDS[liquid])

    def single(a, w):
        return fineness_from_weighing(a, w, rho)

    by_air = jax.vmap(jax.grad(single, argnums=0))(readings["air"], readings["immersed"])
    by_wet = jax.vmap(jax.grad(single, argnums=1))(readings["air"], readings["immersed"])
    error = scale_error * jnp.sqrt(by_air ** 2 + by_wet ** 2)
    return single(readings["air"], readings["immersed"]), error


if __name__ == "__main__":
    years = jnp.arange(-90, -80)
    closing = jnp.array([-87, -82, -95])
    start = Circulation(jnp.zeros(10), jnp.asarray(0.02), jnp.asarray(0.8))
    tally = jnp.ones((3, 10))
    print(jax.grad(hoard_deviance)(start, tally, years, closing))
    rows = [{"obv": 0, "rev": 0}, {"obv": 0, "rev": 1}, {"obv": 1, "rev": 2, "certainty": 0.6}]
    print(fit_dies(corpus_from_records(rows), 2, 3, steps=20))
    print(fineness_report({"air": jnp.array([3.85, 3.92]), "immersed": jnp.array([3.47, 3.53])}))
