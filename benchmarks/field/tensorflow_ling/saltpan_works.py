"""Brine routing and crystalliser accounting for solar salt works.

A solar works lifts sea brine into a chain of shallow concentrating ponds, lets
wind and sun do the evaporation and finally floods crystallising pans where
halite is laid down.  The functions below are the differentiable parts of the
seasonal calibration used by the planning sheets:

* routing of brine strength through the pond chain,
* the depression of evaporation by dissolved salts,
* what a shower does to a pond that is nearly full,
* turning salt-stake readings into a thickness per pan.

The season is run at a daily step.  Long seasons over a whole works make the
tape of ``tf.GradientTape`` heavy (one node per pond and day), so the larger
pieces carry their own backward pass.

Units: strengths in g/kg, depths in mm, time in days.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf

# Sea water entering the first pond.
SEA_STRENGTH = 36.0

# Evaporation depression, fitted on mass fraction x = strength / 1000.
ACTIVITY_LINEAR = 0.48
ACTIVITY_QUADRATIC = 1.15
ACTIVITY_MAGNESIUM = 0.35
HALITE_SATURATION = 0.264
BITTERN_STEEPNESS = 1.6
ACTIVITY_FLOOR = 0.30

# Width (mm) over which a weir starts to run.
WEIR_WIDTH = 4.0

# Density of washed halite in a pan, t / m^3 (pore space included).
PAN_SALT_DENSITY = 1.25


class PondGeometry(NamedTuple):
    """Fixed facts about the concentrating ponds, all of shape [K]."""

    area: tf.Tensor
    crest: tf.Tensor
    depth: tf.Tensor


class ShowerBudget(NamedTuple):
    stored: tf.Tensor
    spilled: tf.Tensor
    strength_factor: tf.Tensor


@dataclasses.dataclass(frozen=True)
class WorksConfig:
    """Settings of one works.

    Attributes:
      ponds: number of concentrating ponds in the chain.
      stakes: number of salt stakes driven into the pans.
      weir_width: smoothing width of the overflow, mm.
      dtype: computation dtype.
    """

    ponds: int = 5
    stakes: int = 12
    weir_width: float = WEIR_WIDTH
    dtype: str = "float32"


def sum_to(value, like):
    """Sum ``value`` over the axes along which ``like`` was broadcast."""
    target = like.shape
    extra = value.shape.rank - target.rank
    if extra:
        value = tf.reduce_sum(value, axis=list(range(extra)))
    axes = [i for i, n in enumerate(target) if n == 1 and value.shape[i] != 1]
    if axes:
        value = tf.reduce_sum(value, axis=axes, keepdims=True)
    return value


# --------------------------------------------------------------------------
# Routing
# --------------------------------------------------------------------------


def make_pond_cascade(ponds: int):
    """Builds the router for a chain of ``ponds`` well mixed ponds.

    Every day pond ``k`` keeps the share ``retention[k]`` of its own brine and
    takes up the rest from the pond above, the first pond from the intake:

        c[t, k] = r[k] c[t-1, k] + (1 - r[k]) c[t, k-1],   c[t, -1] = inflow[t]

    Args:
      ponds: length of the chain.

    Returns:
      ``pond_cascade(inflow, retention, initial)`` with ``inflow`` [T, B],
      ``retention`` [K] in (0, 1) and ``initial`` [B, K], the strengths found
      in the ponds on the eve of the first day (zero for ponds that have been
      flushed with rain water over the winter).  Its result is [T, B, K].
    """

    @tf.custom_gradient
    def pond_cascade(inflow, retention, initial):
        days = inflow.shape[0]
        r = tf.unstack(retention, num=ponds)
        state = tf.unstack(initial, num=ponds, axis=1)
        rows = []
        for t in range(days):
            above = inflow[t]
            for k in range(ponds):
                above = r[k] * state[k] + (1.0 - r[k]) * above
                state[k] = above
            rows.append(tf.stack(state, axis=1))
        strength = tf.stack(rows)

        def grad(upstream):
            # Walk the season backwards, and up the chain within each day.
            carried = [tf.zeros_like(inflow[0]) for _ in range(ponds)]
            adjoint = [None] * days
            for t in reversed(range(days)):
                below = tf.zeros_like(inflow[0])
                for k in reversed(range(ponds)):
                    lam = upstream[t, :, k] + carried[k] + below
                    below = (1.0 - r[k]) * lam
                    carried[k] = lam
                adjoint[t] = tf.stack(carried, axis=1)
                carried = [r[k] * carried[k] for k in range(ponds)]
            adjoint = tf.stack(adjoint)

            feed = tf.concat([inflow[:, :, None], strength[:, :, :-1]], axis=2)
            held = tf.pad(strength[:-1], [[1, 0], [0, 0], [0, 0]])
            d_retention = tf.reduce_sum(adjoint * (held - feed), axis=[0, 1])
            d_inflow = (1.0 - r[0]) * adjoint[:, :, 0]
            d_initial = tf.stack(carried, axis=1)
            return d_inflow, d_retention, d_initial

        return strength, grad

    return pond_cascade


def residence_to_retention(residence_days):
    """Daily retained share of a pond with the given mean residence."""
    return tf.exp(-1.0 / residence_days)


# --------------------------------------------------------------------------
# Evaporation
# --------------------------------------------------------------------------


@tf.custom_gradient
def brine_activity(strength, magnesium):
    """Ratio of brine to fresh-water evaporation.

    Quadratic in the mass fraction up to halite saturation.  Past that point
    the liquor turns to bittern and the curve goes on as a straight line,
    ``BITTERN_STEEPNESS`` times as steep as where the quadratic ended; the
    ratio is never below ``ACTIVITY_FLOOR``.

    Parameters
    ----------
    strength : tf.Tensor
        Brine strength in g/kg, ``[..., K]``.
    magnesium : tf.Tensor
        Mg/Na mass ratio, any shape broadcasting against ``strength``.

    Returns
    -------
    tf.Tensor
        Activity, with the broadcast shape.
    """
    x = strength / 1000.0
    quad = ACTIVITY_QUADRATIC * (1.0 + ACTIVITY_MAGNESIUM * magnesium)
    dilute = tf.minimum(x, HALITE_SATURATION)
    excess = tf.maximum(x - HALITE_SATURATION, 0.0)
    end_slope = ACTIVITY_LINEAR + 2.0 * quad * HALITE_SATURATION
    raw = (
        1.0
        - ACTIVITY_LINEAR * dilute
        - quad * dilute**2
        - BITTERN_STEEPNESS * end_slope * excess
    )
    free = raw > ACTIVITY_FLOOR
    activity = tf.maximum(raw, ACTIVITY_FLOOR)

    def grad(upstream):
        live = tf.where(free, upstream, tf.zeros_like(upstream))
        below = -(ACTIVITY_LINEAR + 2.0 * quad * x)
        above = -BITTERN_STEEPNESS * end_slope
        slope = tf.where(x < HALITE_SATURATION, below, above * tf.ones_like(below))
        by_quad = -(dilute**2) - (
            BITTERN_STEEPNESS * 2.0 * HALITE_SATURATION * excess
        )
        d_strength = live * slope / 1000.0
        d_magnesium = live * by_quad * (ACTIVITY_QUADRATIC * ACTIVITY_MAGNESIUM)
        return sum_to(d_strength, strength), sum_to(d_magnesium, magnesium)

    return activity, grad


def penman_open_water(net_radiation_mm, wind, deficit):
    """Fresh-water evaporation, mm/day (bulk form with fixed weights)."""
    return 0.68 * net_radiation_mm + 0.32 * (2.6 + 1.4 * wind) * deficit


# --------------------------------------------------------------------------
# Showers
# --------------------------------------------------------------------------


def make_freeboard_split(width: float = WEIR_WIDTH):
    """Overflow of a pond during a shower."""

    @tf.custom_gradient
    def freeboard_split(level, rain, crest):
        # level [B, K], rain [B, 1] or [B, K], crest [K]
        total = level + rain
        head = (total - crest) / width
        spilled = width * tf.nn.softplus(head)
        stored = total - spilled
        factor = level / total
        running = tf.sigmoid(head)

        def grad(g_stored, g_spilled, g_factor):
            through = g_stored + running * (g_spilled - g_stored)
            d_level = through + g_factor * rain / total**2
            d_rain = through - g_factor * level / total**2
            d_crest = running * (g_stored - g_spilled)
            return (
                sum_to(d_level, level),
                sum_to(d_rain, rain),
                sum_to(d_crest, crest),
            )

        return (stored, spilled, factor), grad

    return freeboard_split


def shower_budget(level, rain, crest, width: float = WEIR_WIDTH) -> ShowerBudget:
    """Named view on :func:`make_freeboard_split`.  Levels must be positive."""
    return ShowerBudget(*make_freeboard_split(width)(level, rain, crest))


# --------------------------------------------------------------------------
# Crystallising pans
# --------------------------------------------------------------------------


class PanSurvey:
    """Thickness per pan from the stakes that belong to it.

    ``roster`` lists, for each pan, the stakes that are read for it, padded
    with -1.  Stakes standing in the dividing bund are read for both of the
    pans next to it.  A pan without stakes reads zero.
    """

    def __init__(self, roster: Sequence[Sequence[int]]):
        longest = max(len(row) for row in roster)
        table = np.full((len(roster), longest), -1, np.int32)
        for i, row in enumerate(roster):
            table[i, : len(row)] = row
        self.table = table
        self.valid = table >= 0
        self.count = np.maximum(self.valid.sum(axis=1), 1)
        self.mean_thickness = self._build()

    @property
    def pans(self) -> int:
        return self.table.shape[0]

    def _build(self):
        table, valid, count = self.table, self.valid, self.count

        @tf.custom_gradient
        def pan_thickness(stakes):
            """[B, S] stake readings (mm) to [B, P] pan thickness (mm)."""
            share = tf.constant(valid / count[:, None], stakes.dtype)
            picked = tf.gather(stakes, np.maximum(table, 0), axis=1)
            thickness = tf.reduce_sum(picked * share, axis=-1)

            def grad(upstream):
                per_stake = upstream[:, :, None] * share
                flat = tf.boolean_mask(tf.transpose(per_stake, [1, 2, 0]), valid)
                where = table[valid][:, None]
                blank = tf.transpose(tf.zeros_like(stakes))
                return tf.transpose(tf.tensor_scatter_nd_update(blank, where, flat))

            return thickness, grad

        return pan_thickness


def tonnage(thickness_mm, pan_area_m2):
    """Tonnes of salt lying in the pans."""
    return thickness_mm * 1e-3 * pan_area_m2 * PAN_SALT_DENSITY


# --------------------------------------------------------------------------
# Model
# --------------------------------------------------------------------------


class SaltWorks(tf.Module):
    """Season model of one works with trainable residence, magnesium and stake datum."""

    def __init__(self, config: WorksConfig, geometry: PondGeometry, survey: PanSurvey):
        super().__init__(name="salt_works")
        self.config = config
        self.geometry = geometry
        self.survey = survey
        dtype = tf.as_dtype(config.dtype)
        self.log_residence = tf.Variable(
            tf.math.log(tf.linspace(tf.constant(3.0, dtype), 9.0, config.ponds))
        )
        self.magnesium = tf.Variable(tf.fill([config.ponds], tf.constant(0.12, dtype)))
        self.stake_datum = tf.Variable(tf.zeros([config.stakes], dtype))
        self.cascade = make_pond_cascade(config.ponds)

    def __call__(self, intake, opening, potential, rain):
        """intake [T, B], opening [B, K], potential [T, B], rain [B, 1]."""
        retention = residence_to_retention(tf.exp(self.log_residence))
        strength = self.cascade(intake, retention, opening)
        activity = brine_activity(strength, self.magnesium)
        evaporated = tf.reduce_sum(activity * potential[:, :, None], axis=0)
        level = tf.broadcast_to(self.geometry.depth, tf.shape(evaporated))
        budget = shower_budget(
            level, rain, self.geometry.crest, self.config.weir_width
        )
        return strength, evaporated, budget

    def loss(self, batch):
        strength, evaporated, budget = self(
            batch["intake"], batch["opening"], batch["potential"], batch["rain"]
        )
        hydrometer = tf.reduce_mean((strength[-1] - batch["hydrometer"]) ** 2) / 1e3
        pans = self.survey.mean_thickness(batch["stakes"] - self.stake_datum)
        laid = tf.reduce_sum(evaporated, axis=1) * 0.04
        salt = tf.reduce_mean((tf.reduce_mean(pans, axis=1) - laid) ** 2)
        return hydrometer + salt + 1e-3 * tf.reduce_mean(budget.spilled)


def demo_batch(config: WorksConfig, days: int = 20, sites: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    dtype = config.dtype
    cast = lambda a: tf.constant(a, dtype)
    return {
        "intake": cast(SEA_STRENGTH + 60 * rng.random((days, sites))),
        "opening": cast(np.linspace(45, 240, config.ponds) + rng.random((sites, 1))),
        "potential": cast(4 + 3 * rng.random((days, sites))),
        "rain": cast(20 * rng.random((sites, 1))),
        "hydrometer": cast(60 + 40 * rng.random((sites, config.ponds))),
        "stakes": cast(30 + 20 * rng.random((sites, config.stakes))),
    }


def main():
    config = WorksConfig()
    ponds = np.arange(config.ponds)
    geometry = PondGeometry(
        area=tf.constant(4e4 / (1 + ponds), config.dtype),
        crest=tf.constant(320.0 - 15.0 * ponds, config.dtype),
        depth=tf.constant(312.0 - 15.0 * ponds, config.dtype),
    )
    survey = PanSurvey([[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8], [9, 10, 11]])
    works = SaltWorks(config, geometry, survey)
    batch = demo_batch(config)
    for step in range(5):
        with tf.GradientTape() as tape:
            value = works.loss(batch)
        grads = tape.gradient(value, works.trainable_variables)
        for variable, g in zip(works.trainable_variables, grads):
            variable.assign_sub(1e-3 * tf.clip_by_norm(g, 1.0))
        print(step, float(value))


if __name__ == "__main__":
    main()
