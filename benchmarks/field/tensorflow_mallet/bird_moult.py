"""Moult, body fat and ring recoveries of birds handled at a ringing station.

The models here are fitted with gradient methods rather than with the EM and
Newton code of the older ringing software, so that the station's covariates
(day length, rainfall, age class) can enter through ordinary Keras layers:

* the moult timing model of Underhill & Zucchini (1988), data of type 2, with
  one start date, duration and spread per cohort of birds;
* the percentage of feather mass grown, from the scores of single primaries
  (Summers et al. 1983) and the relative masses of these feathers;
* the cell probabilities of the dead recovery model of Seber (1970);
* an ordered logit for the visible fat scores 0..8 of Kaiser (1993).

Likelihoods are evaluated once per optimiser step for some ten thousand
records; the gradients are written out so that a step keeps few intermediates.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

NOT_STARTED, GROWING, FINISHED = 0, 1, 2
MAX_FEATHER_SCORE = 5.0
FAT_CLASSES = 9
MIN_GAP = 0.1  # logits; neighbouring fat classes never come closer than this
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
TAIL = -8.0

# Relative masses of the ten primaries (P1..P10) of some passerines, percent.
PRIMARY_MASSES = {
    "willow_warbler": (5.3, 5.9, 6.8, 8.0, 9.6, 11.6, 13.3, 14.1, 13.8, 11.6),
    "greenfinch": (5.5, 6.0, 6.7, 7.8, 9.5, 11.5, 13.0, 14.0, 13.6, 12.4),
    "reed_warbler": (5.7, 6.2, 7.0, 8.1, 9.6, 11.4, 12.9, 14.0, 14.0, 11.1),
}


class MoultRecords(NamedTuple):
    """One row per handled bird."""

    day: tf.Tensor  # days since 1 June
    grown: tf.Tensor  # share of feather mass grown, in (0, 1) for growing birds
    stage: tf.Tensor  # NOT_STARTED, GROWING or FINISHED
    cohort: tf.Tensor  # row of the parameter vectors


def day_of_season(dates):
    """Days since 1 June of the year of each date.

    Args:
      dates: array of ``datetime64[D]``.

    Returns:
      float32 array of the same length.
    """
    dates = np.asarray(dates, "datetime64[D]")
    origin = dates.astype("datetime64[Y]").astype("datetime64[M]") + 5
    return (dates - origin.astype("datetime64[D]")).astype(np.float32)


def _log_ndtr(x):
    """Logarithm of the standard normal distribution function."""
    body = tf.maximum(x, TAIL)
    tail = tf.minimum(x, TAIL)
    inner = tf.math.log(0.5 * tf.math.erfc(-body / math.sqrt(2.0)))
    u = 1.0 / tf.square(tail)
    series = -u * (1.0 - u * (3.0 - u * (15.0 - u * (105.0 - 945.0 * u))))
    outer = (
        -0.5 * tf.square(tail)
        - LOG_SQRT_2PI
        - tf.math.log(-tail)
        + tf.math.log1p(series)
    )
    return tf.where(x < TAIL, outer, inner)


def _inverse_mills(x):
    return tf.exp(-0.5 * tf.square(x) - LOG_SQRT_2PI - _log_ndtr(x))


@tf.custom_gradient
def moult_stage_nll(params, day, grown, stage, cohort):
    """Negative log-likelihood of every bird under the type 2 moult model.

    Args:
      params: dict of three vectors over cohorts: ``start`` (mean start date),
        ``duration`` (days, positive) and ``log_spread`` (log of the standard
        deviation of the start date, in days).
      day: day of capture, one per bird.
      grown: share of feather mass grown; read for growing birds only.
      stage: integers, 0 not started, 1 growing, 2 finished.
      cohort: integers into the vectors of ``params``.

    Returns:
      One value per bird.
    """
    num_cohorts = tf.shape(params["start"])[0]
    start = tf.gather(params["start"], cohort)
    duration = tf.gather(params["duration"], cohort)
    log_spread = tf.gather(params["log_spread"], cohort)
    spread = tf.exp(log_spread)

    growing = tf.equal(stage, GROWING)
    finished = tf.equal(stage, FINISHED)
    zero = tf.zeros_like(day)
    progress = tf.where(growing, grown, tf.where(finished, zero + 1.0, zero))
    z = (day - start - progress * duration) / spread

    density = tf.math.log(duration) - log_spread - 0.5 * tf.square(z) - LOG_SQRT_2PI
    loglik = tf.where(
        growing, density, _log_ndtr(tf.where(finished, z, -z))
    )

    def grad(upstream):
        slope = tf.where(
            growing,
            -z,
            tf.where(finished, _inverse_mills(z), -_inverse_mills(-z)),
        )
        slope = -upstream * slope
        per_day = slope / spread
        extra = tf.where(growing, upstream, zero)

        def by_cohort(values):
            return tf.math.unsorted_segment_sum(values, cohort, num_cohorts)

        d_params = {
            "start": by_cohort(-per_day),
            "duration": by_cohort(-per_day * progress - extra / duration),
            "log_spread": by_cohort(-slope * z + extra),
        }
        d_grown = tf.where(growing, -per_day * duration, zero)
        return (
            d_params["duration"],
            d_params["log_spread"],
            d_params["start"],
            per_day,
            d_grown,
            None,
            None,
        )

    return -loglik, grad


class FeatherMassIndex:
    """Percentage of primary feather mass grown.

    Parameters
    ----------
    species : str
        Key of ``PRIMARY_MASSES``; the masses are starting values and may be
        trained, since published sets differ between populations.
    """

    def __init__(self, species="willow_warbler"):
        self.masses = tf.Variable(PRIMARY_MASSES[species], dtype=tf.float32)
        self._grown_mass = self._build()

    @staticmethod
    def _build():
        @tf.custom_gradient
        def grown_mass(scores, masses, seen):
            """Mass-weighted mean growth.

            Parameters
            ----------
            scores : (birds, feathers) float
                Feather scores, 0 old, 5 new and fully grown.
            masses : (feathers,) float
                Relative masses, positive.
            seen : (birds, feathers) bool
                False for a feather that was missing or not scored. A bird
                without any scored feather gets the index 0.
            """
            present = tf.cast(seen, scores.dtype)
            growth = scores / MAX_FEATHER_SCORE
            known = tf.reduce_sum(present * masses, axis=-1, keepdims=True)
            share = tf.math.divide_no_nan(
                tf.reduce_sum(present * masses * growth, axis=-1, keepdims=True), known
            )

            def grad(upstream):
                per_mass = tf.math.divide_no_nan(upstream[:, None], known)
                d_scores = per_mass * present * masses / MAX_FEATHER_SCORE
                d_masses = tf.reduce_sum(per_mass * (present * growth - share), axis=0)
                return d_scores, d_masses, None

            return tf.squeeze(share, -1), grad

        return grown_mass

    def __call__(self, scores, seen=None):
        if seen is None:
            seen = tf.ones_like(scores, tf.bool)
        return self._grown_mass(scores, tf.convert_to_tensor(self.masses), seen)


@tf.custom_gradient
def recovery_cells(survival_logit, reporting_logit):
    """Cell probabilities of birds ringed in year i and reported dead in year j.

    A bird ringed at the start of year i survives the years i..j-1, dies in year
    j and is found and reported: ``S_i ... S_{j-1} (1 - S_j) r_j`` for j >= i.
    Both inputs are [..., years]. Returns the cells [..., years, years] (zero
    below the diagonal) and the probability [..., years] of never being reported.
    """
    years = tf.shape(survival_logit)[-1]
    survival = tf.sigmoid(survival_logit)
    reporting = tf.sigmoid(reporting_logit)
    reached = tf.cumsum(tf.math.log_sigmoid(survival_logit), axis=-1, exclusive=True)
    died = tf.math.log_sigmoid(-survival_logit) + tf.math.log_sigmoid(reporting_logit)
    upper = tf.linalg.band_part(
        tf.ones(tf.stack([years, years]), survival_logit.dtype), 0, -1
    )
    path = tf.minimum(reached[..., None, :] - reached[..., :, None], 0.0)
    cells = upper * tf.exp(path + died[..., None, :])
    never = 1.0 - tf.reduce_sum(cells, axis=-1)

    def grad(g_cells, g_never):
        mass = (g_cells - g_never[..., None]) * cells
        by_death = tf.reduce_sum(mass, axis=-2)
        by_release = tf.reduce_sum(mass, axis=-1)
        d_log_survival = tf.cumsum(
            by_death - by_release, axis=-1, exclusive=True, reverse=True
        )
        d_survival = d_log_survival * (1.0 - survival) - by_death * survival
        d_reporting = by_death * (1.0 - reporting)
        return d_survival, d_reporting

    return (cells, never), grad


def recovery_loglik(survival_logit, reporting_logit, recovered, ringed):
    """Multinomial log-likelihood of a recovery table.

    Args:
      survival_logit: [years].
      reporting_logit: [years].
      recovered: [years, years] counts, upper triangular.
      ringed: [years] birds ringed per year.
    """
    cells, never = recovery_cells(survival_logit, reporting_logit)
    lost = ringed - tf.reduce_sum(recovered, axis=-1)
    safe = tf.where(recovered > 0, cells, tf.ones_like(cells))
    found = tf.reduce_sum(recovered * tf.math.log(safe))
    return found + tf.reduce_sum(lost * tf.math.log(never))


@tf.custom_gradient
def fat_score_loglik(condition, base_cut, log_gaps, score):
    """Log-probability of a visible fat score under an ordered logit.

    The first cut point is ``base_cut``; each further one lies
    ``max(exp(log_gaps[k]), MIN_GAP)`` above its predecessor, so that classes an
    observer hardly uses keep some room.

    :param condition: latent condition, one per bird, any sign
    :param base_cut: scalar
    :param log_gaps: one fewer than there are cut points
    :param score: integer class, 0 up to the number of cut points
    :return: log-probabilities, one per bird
    """
    gaps = tf.maximum(tf.exp(log_gaps), tf.cast(MIN_GAP, log_gaps.dtype))
    cuts = base_cut + tf.concat([tf.zeros_like(gaps[:1]), tf.cumsum(gaps)], axis=0)
    num_cuts = tf.shape(cuts)[0]
    has_upper = score < num_cuts
    has_lower = score > 0
    above = tf.gather(cuts, tf.minimum(score, num_cuts - 1)) - condition
    below = tf.gather(cuts, tf.maximum(score - 1, 0)) - condition
    inner = tf.logical_and(has_upper, has_lower)
    width = tf.where(inner, above - below, tf.ones_like(above))
    zero = tf.zeros_like(above)
    loglik = (
        tf.where(has_upper, tf.math.log_sigmoid(above), zero)
        + tf.where(has_lower, tf.math.log_sigmoid(-below), zero)
        + tf.where(inner, tf.math.log(-tf.math.expm1(-width)), zero)
    )

    def grad(upstream):
        crowd = tf.where(inner, 1.0 / tf.math.expm1(width), zero)
        d_above = upstream * tf.where(has_upper, tf.sigmoid(-above) + crowd, zero)
        d_below = upstream * tf.where(has_lower, -tf.sigmoid(below) - crowd, zero)
        d_cuts = tf.math.unsorted_segment_sum(
            d_above, tf.minimum(score, num_cuts - 1), num_cuts
        ) + tf.math.unsorted_segment_sum(d_below, tf.maximum(score - 1, 0), num_cuts)
        d_gaps = tf.cumsum(d_cuts, reverse=True)[1:]
        return (
            -(d_above + d_below),
            tf.reduce_sum(d_cuts),
            d_gaps * gaps,
            None,
        )

    return loglik, grad


class FatScoreHead(tf.keras.layers.Layer):
    """Ordered logit on top of covariates (hour of day, wing length, weight)."""

    def __init__(self, classes=FAT_CLASSES, **kwargs):
        super().__init__(**kwargs)
        self.classes = classes
        self.project = tf.keras.layers.Dense(1)

    def build(self, input_shape):
        self.base_cut = self.add_weight(name="base_cut", shape=(), initializer="zeros")
        self.log_gaps = self.add_weight(
            name="log_gaps", shape=(self.classes - 2,), initializer="zeros"
        )
        self.project.build(input_shape)

    def call(self, covariates, score):
        condition = tf.squeeze(self.project(covariates), -1)
        return fat_score_loglik(
            condition,
            tf.convert_to_tensor(self.base_cut),
            tf.convert_to_tensor(self.log_gaps),
            score,
        )


class MoultTiming:
    """Maximum likelihood for cohorts of one species."""

    def __init__(self, num_cohorts, start=45.0, duration=60.0, spread=9.0):
        self.start = tf.Variable(tf.fill([num_cohorts], float(start)))
        self.duration = tf.Variable(tf.fill([num_cohorts], float(duration)))
        self.log_spread = tf.Variable(tf.fill([num_cohorts], math.log(spread)))

    @property
    def trainable_variables(self):
        return [self.start, self.duration, self.log_spread]

    def loss(self, records):
        params = {
            "start": tf.convert_to_tensor(self.start),
            "duration": tf.convert_to_tensor(self.duration),
            "log_spread": tf.convert_to_tensor(self.log_spread),
        }
        return tf.reduce_mean(moult_stage_nll(params, *records))

    def fit(self, records, steps=200, learning_rate=0.3):
        optimizer = tf.keras.optimizers.Adam(learning_rate)
        for _ in range(steps):
            with tf.GradientTape() as tape:
                loss = self.loss(records)
            grads = tape.gradient(loss, self.trainable_variables)
            optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return float(loss)


def simulate_records(rng, birds=400, cohorts=2):
    """Captures on random days; later cohorts moult twelve days later."""
    cohort = rng.integers(0, cohorts, birds)
    begin = rng.normal(42.0 + 12.0 * cohort, 8.0)
    day = rng.uniform(10.0, 140.0, birds)
    grown = (day - begin) / 55.0
    stage = np.where(grown <= 0, NOT_STARTED, np.where(grown >= 1, FINISHED, GROWING))
    return MoultRecords(
        tf.constant(day, tf.float32),
        tf.constant(np.clip(grown, 0.0, 1.0), tf.float32),
        tf.constant(stage, tf.int32),
        tf.constant(cohort, tf.int32),
    )


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    timing = MoultTiming(2)
    print("loss", timing.fit(simulate_records(rng)))
    print("start", timing.start.numpy(), "duration", timing.duration.numpy())

    index = FeatherMassIndex("greenfinch")
    print("PFMG", index(tf.constant(rng.integers(0, 6, (3, 10)), tf.float32)).numpy())

    head = FatScoreHead()
    print("fat", head(tf.random.normal([4, 3]), tf.constant([0, 2, 5, 8])).numpy())

    years = 5
    print(
        "recoveries",
        float(
            recovery_loglik(
                tf.zeros([years]),
                tf.fill([years], -2.0),
                tf.linalg.band_part(tf.ones([years, years]), 0, -1),
                tf.fill([years], 120.0),
            )
        ),
    )
