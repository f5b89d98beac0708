"""Growth reconstruction from fish ear stones (otoliths).

A reader marks the annuli on the polished section of an otolith and measures
the radius from the core to every mark.  From these we want

* the body length of the fish at each birthday (back calculation),
* the growth of a year relative to the other fish that lived through it,
* a smoothed trace of the laser ablation transect (Sr:Ca along the radius),
* the table of the ageing error of the reader.

All pieces feed a joint likelihood that is maximised by gradient, which is why
they are written in JAX.  Padded arrays are used throughout: a fish with `n`
marks uses the first `n` columns of its row.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.stats import norm

MICRON = 1.0e-3
MAX_AGE = 12


class BirthPoint(NamedTuple):
    """Biological intercept: body length and otolith radius at hatching."""

    length: jax.Array
    radius: jax.Array


class Specimens(NamedTuple):
    """Padded table of measured fish."""

    radii: jax.Array            # (fish, marks), mm
    n_marks: jax.Array          # (fish,), int
    capture_length: jax.Array   # (fish,), mm
    capture_radius: jax.Array   # (fish,), mm
    capture_year: jax.Array     # (fish,), int


def mark_mask(n_marks: jax.Array, width: int) -> jax.Array:
    return jnp.arange(width)[None, :] < n_marks[:, None]


def increments(radii: jax.Array, birth_radius: jax.Array) -> jax.Array:
    """Widths between consecutive marks, the first one from the hatch check."""
    start = jnp.broadcast_to(birth_radius, (radii.shape[0], 1))
    return jnp.diff(jnp.concatenate([start, radii], axis=1), axis=1)


# -- body length at each mark -----------------------------------------------


@jax.custom_vjp
def back_calculated_lengths(birth, radii, capture_length, capture_radius, n_marks):
    """Body length at each annulus by the biological intercept line.

    Parameters
    ----------
    birth : BirthPoint
        Scalars shared by all fish.
    radii : (fish, marks)
        Radius of every annulus; columns from ``n_marks`` on are padding.
    capture_length, capture_radius : (fish,)
    n_marks : (fish,) int

    Returns
    -------
    (fish, marks)
        Lengths, zero in the padding.
    """
    return _back_calc_fwd(birth, radii, capture_length, capture_radius, n_marks)[0]


def _back_calc_fwd(birth, radii, capture_length, capture_radius, n_marks):
    mask = mark_mask(n_marks, radii.shape[1])
    slope = (capture_length - birth.length) / (capture_radius - birth.radius)
    line = capture_length[:, None] + (radii - capture_radius[:, None]) * slope[:, None]
    lengths = jnp.where(mask, line, 0.0)
    return lengths, (birth, radii, capture_length, capture_radius, n_marks)


def _back_calc_bwd(res, g):
    birth, radii, capture_length, capture_radius, n_marks = res
    mask = mark_mask(n_marks, radii.shape[1])
    reach = (capture_radius - birth.radius)[:, None]
    slope = (capture_length - birth.length)[:, None] / reach
    lag = (radii - capture_radius[:, None]) / reach

    d_radii = jnp.where(mask, g * slope, 0.0)
    d_capture_radius = -jnp.sum(d_radii * (1.0 + lag), axis=1)
    d_birth_radius = jnp.sum(d_radii * lag)
    d_capture_length = jnp.sum(g * (1.0 + lag), axis=1)
    d_birth_length = -jnp.sum(g * lag)
    d_birth = BirthPoint(length=d_birth_length, radius=d_birth_radius)
    return d_birth, d_radii, d_capture_length, d_capture_radius, None


back_calculated_lengths.defvjp(_back_calc_fwd, _back_calc_bwd)


# -- what a calendar year did to everybody's growth ---------------------------


def year_residuals(years, weights, n_years):
    """Build the split of increments into year effects and residuals.

    `years` holds the calendar slot of each increment (same shape as the
    increments, any number of axes); `weights` are the readability scores, zero
    for padding.  The returned function gives ``(residual, effect)``, where
    effect has one entry per year and is the weighted mean of that year.  Years
    nobody lived through have effect zero.
    """
    flat_years = jnp.ravel(jnp.asarray(years))
    flat_weights = jnp.ravel(jnp.asarray(weights))
    total = jax.ops.segment_sum(flat_weights, flat_years, n_years)
    share = flat_weights / jnp.where(total > 0, total, 1.0)[flat_years]

    @jax.custom_gradient
    def split(values):
        flat = jnp.ravel(values)
        effect = jax.ops.segment_sum(share * flat, flat_years, n_years)
        residual = (flat - effect[flat_years]).reshape(values.shape)

        def pull(cotangents):
            g_residual, g_effect = cotangents
            g_flat = jnp.ravel(g_residual)
            into_year = g_effect - jax.ops.segment_sum(g_flat, flat_years, n_years)
            return (g_flat + share * into_year[flat_years]).reshape(values.shape)

        return (residual, effect), pull

    return split


# -- laser transect -----------------------------------------------------------


def _roll_cell(retention, carry, row):
    signal, fresh = row
    mixed = (1.0 - retention) * signal + retention * carry
    state = jnp.where(fresh, signal, mixed)
    return state, state


@jax.custom_vjp
def transect_smooth(signal, retention, fresh):
    """Model of the sample chamber: first-order memory along the transect.

    signal: (points, elements), counts in the order of ablation.
    retention: (elements,), part of the previous gas still in the cell.
    fresh: (points,) bool, true where the cell has been flushed (first point of
        an otolith); several otoliths may follow one another in one run.  The
        very first point counts as flushed anyway.
    """
    return _transect_fwd(signal, retention, fresh)[0]


def _transect_fwd(signal, retention, fresh):
    fresh = jnp.asarray(fresh).at[0].set(True)
    start = jnp.zeros_like(signal[0])
    _, trace = lax.scan(partial(_roll_cell, retention), start, (signal, fresh))
    return trace, (signal, retention, fresh, trace)


def _transect_bwd(res, g):
    signal, retention, fresh, trace = res
    previous = jnp.concatenate([trace[:1], trace[:-1]], axis=0)

    def back(carry, row):
        g_t, signal_t, previous_t, fresh_t = row
        lam = g_t + carry
        d_signal = jnp.where(fresh_t, lam, (1.0 - retention) * lam)
        d_retention = jnp.where(fresh_t, 0.0, lam * (previous_t - signal_t))
        return retention * lam, (d_signal, d_retention)

    rows = (g, signal, previous, fresh)
    _, (d_signal, d_retention) = lax.scan(back, jnp.zeros_like(g[0]), rows, reverse=True)
    return d_signal, jnp.sum(d_retention, axis=0), None


transect_smooth.defvjp(_transect_fwd, _transect_bwd)


def strontium_habitat(ratio, threshold=1.9, width=0.25):
    """Probability that a point was laid down in sea water."""
    return jax.nn.sigmoid((ratio - threshold) / width)


# -- ageing error ---------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def age_bin_mass(centre, spread, edges):
    """Chance that a fish of a true age is read into each age class.

    Args:
        centre: Expected reading per true age, shape (ages,).
        spread: Standard deviation of the reading, same shape.
        edges: Tuple of inner class limits.  The first class is open below and
            the last one (the plus group) open above, so there is one more
            class than limits.

    Returns:
        Matrix (ages, classes) with rows adding up to one.
    """
    z = (jnp.asarray(edges) - centre[:, None]) / spread[:, None]
    below = norm.cdf(z)
    floor = jnp.zeros_like(below[:, :1])
    return jnp.diff(jnp.concatenate([floor, below, floor + 1.0], axis=1), axis=1)


@age_bin_mass.defjvp
def _age_bin_mass_jvp(edges, primals, tangents):
    centre, spread = primals
    d_centre, d_spread = tangents
    z = (jnp.asarray(edges) - centre[:, None]) / spread[:, None]
    d_z = -(d_centre[:, None] + z * d_spread[:, None]) / spread[:, None]
    d_below = norm.pdf(z) * d_z
    wall = jnp.zeros_like(d_below[:, :1])
    d_mass = jnp.diff(jnp.concatenate([wall, d_below, wall], axis=1), axis=1)
    return age_bin_mass(centre, spread, edges), d_mass


class ReaderModel:
    """Reader with a linear bias and a constant coefficient of variation."""

    def __init__(self, max_age: int = MAX_AGE, plus_group: int = 8):
        self.true_ages = jnp.arange(1, max_age + 1, dtype=float)
        self.edges = tuple(a + 0.5 for a in range(1, plus_group))

    def matrix(self, params: dict) -> jax.Array:
        centre = self.true_ages + params["bias"] * (self.true_ages - 1.0)
        spread = params["cv"] * self.true_ages + 0.05
        return age_bin_mass(centre, spread, self.edges)

    def log_likelihood(self, params: dict, counts: jax.Array) -> jax.Array:
        """counts: fish read into each class, drawn from params['age_logits']."""
        mix = jax.nn.softmax(params["age_logits"]) @ self.matrix(params)
        return jnp.sum(counts * jnp.log(mix + 1e-12))


def growth_objective(birth, fish: Specimens, first_year: int, n_years: int):
    """Sum of squared growth residuals after removing the calendar years."""
    lengths = back_calculated_lengths(
        birth, fish.radii, fish.capture_length, fish.capture_radius, fish.n_marks
    )
    width = fish.radii.shape[1]
    mask = mark_mask(fish.n_marks, width)
    gains = jnp.where(mask, increments(lengths, birth.length), 0.0)
    age = jnp.arange(width)[None, :]
    slot = fish.capture_year[:, None] - fish.n_marks[:, None] + age - first_year
    split = year_residuals(jnp.clip(slot, 0, n_years - 1), mask.astype(gains.dtype), n_years)
    residual, effect = split(gains)
    return jnp.sum(jnp.where(mask, residual, 0.0) ** 2) + 1e-3 * jnp.sum(effect**2)


def _demo():
    rng = np.random.default_rng(0)
    radii = np.cumsum(rng.uniform(0.2, 0.5, (5, 6)), axis=1)
    n_marks = np.array([6, 4, 5, 3, 6])
    last = radii[np.arange(5), n_marks - 1]
    fish = Specimens(
        radii=jnp.asarray(radii),
        n_marks=jnp.asarray(n_marks),
        capture_length=jnp.asarray(120.0 + 90.0 * last),
        capture_radius=jnp.asarray(last + 0.1),
        capture_year=jnp.asarray([2012, 2012, 2013, 2013, 2014]),
    )
    birth = BirthPoint(jnp.asarray(4.0), jnp.asarray(0.02))
    print(jax.value_and_grad(growth_objective)(birth, fish, 2005, 10))
    trace = transect_smooth(
        jnp.asarray(rng.uniform(1.0, 3.0, (20, 2))),
        jnp.asarray([0.6, 0.4]),
        jnp.asarray(np.arange(20) % 10 == 0),
    )
    print(strontium_habitat(trace[:, 0]))


if __name__ == "__main__":
    _demo()
