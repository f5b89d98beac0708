"""Selection tools of a bean breeding station.

Beans self, so most lines in the pedigree have the same plant as both parents; crosses are made by hand in the glasshouse.
The functions are differentiable because the season planner optimises the selected share and the index weights by gradient.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.stats import norm

UNKNOWN = -1

TRAITS = ("yield", "days to flower", "seed weight")


@jax.custom_vjp
def selection_response(genetic, phenotypic, differential):
    r"""Multivariate breeder's equation, :math:`R = G P^{-1} S`.

    Parameters
    ----------
    genetic : array (m, n)
        Covariances of the m traits read in the progeny with the n traits selected on; m and n may differ.
    phenotypic : array (n, n)
        Phenotypic covariance of the selected traits.
    differential : array (..., n)
        Selection differentials, one row a season (any leading axes).

    Returns
    -------
    array (..., m)
    """
    pull = jnp.linalg.solve(phenotypic, jnp.reshape(differential, (-1, differential.shape[-1])).T)
    return jnp.reshape((genetic @ pull).T, differential.shape[:-1] + (genetic.shape[0],))


def _response_fwd(genetic, phenotypic, differential):
    rows = jnp.reshape(differential, (-1, differential.shape[-1]))
    pull = jnp.linalg.solve(phenotypic, rows.T)                       # n, seasons
    out = jnp.reshape((genetic @ pull).T, differential.shape[:-1] + (genetic.shape[0],))
    return out, (genetic, phenotypic, pull, differential)


def _response_bwd(res, g):
    genetic, phenotypic, pull, differential = res
    g_rows = jnp.reshape(g, (-1, genetic.shape[0]))
    back = jnp.linalg.solve(phenotypic.T, genetic.T @ g_rows.T)       # n, seasons
    return g_rows.T @ pull.T, -back @ pull.T, jnp.reshape(back.T, differential.shape)


selection_response.defvjp(_response_fwd, _response_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def truncation_intensity(share, plants=None):
    """Standardised selection intensity when the best ``share`` (0 < share < 1) of the plants is kept.

    For a nursery of a finite number of ``plants`` Burrows' small-sample term is taken off; None means a very large field.
    """
    z = norm.ppf(1.0 - share)
    intensity = norm.pdf(z) / share
    if plants is not None:
        intensity = intensity - (1.0 - share) / (2.0 * share * (plants + 1.0) * intensity)
    return intensity


@truncation_intensity.defjvp
def _intensity_jvp(plants, primals, tangents):
    (share,), (d_share,) = primals, tangents
    z = norm.ppf(1.0 - share)
    intensity = truncation_intensity(share, plants)
    return intensity, d_share * (z - intensity) / share


# -- pedigree ------------------------------------------------------------------------------------------------------------------

def _rows(sire, dam, count):
    """Unknown parents point to a spare row behind the last line."""
    pairs = jnp.stack([jnp.asarray(sire), jnp.asarray(dam)], axis=1)
    return jnp.where(pairs == UNKNOWN, count, pairs)


@jax.custom_vjp
def breeding_values(mendelian, base, sire, dam):
    """Breeding values of all lines of a pedigree, parents before progeny.

    u_i = (u_sire + u_dam) / 2 + mendelian_i, with ``base`` in the place of a parent that is not recorded (-1).

    mendelian: (lines, traits)   base: (traits,)   sire, dam: int (lines,), equal where a line was selfed
    """
    count, traits = mendelian.shape
    table = jnp.zeros((count + 1, traits), mendelian.dtype).at[count].set(base)

    def grow(u, line):
        i, pair, own = line
        return u.at[i].set(0.5 * (u[pair[0]] + u[pair[1]]) + own), None

    table, _ = lax.scan(grow, table, (jnp.arange(count), _rows(sire, dam, count), mendelian))
    return table[:count]


def _values_fwd(mendelian, base, sire, dam):
    return breeding_values(mendelian, base, sire, dam), (sire, dam)


def _values_bwd(res, g):
    sire, dam = res
    count, traits = g.shape
    pairs = _rows(sire, dam, count)
    missing = jnp.sum(pairs == count, axis=1)

    def pull_back(acc, line):
        i, pair = line
        own = acc[i]
        acc = acc.at[pair].set(acc[pair] + 0.5 * own)
        return acc, own

    acc = jnp.concatenate([g, jnp.zeros((1, traits), g.dtype)])
    _, d_own = lax.scan(pull_back, acc, (jnp.arange(count), pairs), reverse=True)
    d_base = 0.5 * missing.astype(g.dtype) @ d_own
    return d_own, d_base, None, None


breeding_values.defvjp(_values_fwd, _values_bwd)


class SeasonPlan:
    """Expected gain of a cycle for the share kept in each of several nurseries."""

    def __init__(self, genetic, phenotypic, nursery_plants):
        self.genetic = jnp.asarray(genetic)
        self.phenotypic = jnp.asarray(phenotypic)
        self.nursery_plants = tuple(nursery_plants)

    def gain(self, shares, weights):
        spread = jnp.sqrt(jnp.diag(self.phenotypic))
        rows = [truncation_intensity(shares[i], n) * spread for i, n in enumerate(self.nursery_plants)]
        return jnp.sum(selection_response(self.genetic, self.phenotypic, jnp.stack(rows)) @ weights)
