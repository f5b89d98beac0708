"""Analysis of hyper-parameter sweeps with several seeds per configuration.

A sweep leaves a ragged table behind: some seeds crashed, some evaluations were
never run, evaluation sets differ in size from run to run.  This module turns
such a table into quantities one can optimise through:

* missing scores filled with a shrunken mean of the configuration,
* for each run, the mean of the *other* seeds of its configuration, as a baseline
  for a seed-noise estimate,
* a power law through the checkpoints of each run, with its marginal gain.

Rows are runs.  Configurations are given as an integer code per run, in
``0 .. n_configs - 1`` and in no particular order.

The learned parts (priors, strengths, curve parameters) are fitted jointly by
:class:`SweepModel`; see :func:`demo_table` for the layout of the inputs.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, NamedTuple

import numpy as np
import tensorflow as tf

MIN_STRENGTH = 1e-3
REFERENCE_STEPS = 1_000.0


class CurveParams(NamedTuple):
    """Parameters of ``floor + gain * (steps + offset) ** -exponent``, one per run."""

    floor: tf.Tensor
    gain: tf.Tensor
    offset: tf.Tensor
    exponent: tf.Tensor


@dataclasses.dataclass
class Sweep:
    scores: np.ndarray        # (runs, metrics)
    observed: np.ndarray      # (runs, metrics) bool
    config: np.ndarray        # (runs,) int
    eval_size: np.ndarray     # (runs,) examples in the evaluation set, in thousands
    steps: np.ndarray         # (runs, checkpoints), in units of REFERENCE_STEPS
    losses: np.ndarray        # (runs, checkpoints)

    @property
    def n_configs(self) -> int:
        return int(self.config.max()) + 1


def _by_config(values, config, n_configs):
    return tf.math.unsorted_segment_sum(values, config, n_configs)


def make_score_filler(config, n_configs: int):
    """Build the imputation step of a sweep.

    Args:
        config: int array (runs,).
        n_configs: number of configurations; codes without a run are allowed.
    """
    config = tf.convert_to_tensor(config, tf.int32)

    @tf.custom_gradient
    def fill_missing(scores, observed, prior, strength):
        """Replace unobserved scores by the shrunken mean of their configuration.

        Args:
            scores: (runs, metrics). Whatever stands at unobserved places is ignored.
            observed: bool, same shape.
            prior: (metrics,), what a configuration without any observation gets.
            strength: (metrics,), positive pseudo-count of the prior.

        Returns:
            (runs, metrics), equal to ``scores`` where observed.
        """
        seen = tf.where(observed, scores, tf.zeros_like(scores))
        count = _by_config(tf.cast(observed, scores.dtype), config, n_configs)
        denom = count + strength
        level = (_by_config(seen, config, n_configs) + strength * prior) / denom
        filled = tf.where(observed, scores, tf.gather(level, config))

        def grad(upstream):
            zero = tf.zeros_like(upstream)
            on_level = _by_config(tf.where(observed, zero, upstream), config, n_configs)
            per_unit = on_level / denom
            d_scores = tf.where(observed, upstream + tf.gather(per_unit, config), zero)
            d_prior = tf.reduce_sum(per_unit * strength, axis=0)
            d_strength = tf.reduce_sum(per_unit * (prior - level), axis=0)
            return d_scores, None, d_prior, d_strength

        return filled, grad

    return fill_missing


class SeedTable:
    """Seeds of a sweep grouped by configuration."""

    def __init__(self, config, n_configs: int):
        self.config = tf.convert_to_tensor(config, tf.int32)
        self.n_configs = n_configs

    def held_out(self, scores, eval_size, prior, strength):
        """Mean of the other seeds of each run's configuration.

        Parameters
        ----------
        scores : (runs, metrics)
        eval_size : (runs,)
            Weight of a run in the mean, the size of its evaluation set.
        prior : (metrics,)
        strength : ()
            Weight of the prior; also keeps configurations of one seed defined.
        """
        config, n_configs = self.config, self.n_configs

        @tf.custom_gradient
        def held_out_mean(scores, eval_size, prior, strength):
            w = eval_size[:, tf.newaxis]
            own = w * scores
            mass = tf.gather(_by_config(own, config, n_configs), config) - own
            size = tf.gather(_by_config(w, config, n_configs), config) - w
            denom = size + strength
            baseline = (mass + strength * prior) / denom

            def grad(g):
                per_unit = g / denom
                lost = per_unit * baseline

                others = tf.gather(_by_config(g, config, n_configs), config) - g
                d_scores = w * others / denom

                unit_sum = tf.gather(_by_config(per_unit, config, n_configs), config)
                lost_sum = tf.gather(_by_config(lost, config, n_configs), config)
                d_size = tf.reduce_sum(
                    scores * (unit_sum - per_unit) - (lost_sum - lost), axis=1)
                d_prior = tf.reduce_sum(per_unit * strength, axis=0)
                d_strength = tf.reduce_sum(per_unit * (prior - baseline))
                return d_scores, d_size, d_prior, d_strength

            return baseline, grad

        return held_out_mean(scores, eval_size, prior, strength)

    def seed_noise(self, scores, eval_size, prior, strength):
        """Weighted mean square of the runs about their baselines, (metrics,)."""
        gap = scores - self.held_out(scores, eval_size, prior, strength)
        w = eval_size[:, tf.newaxis]
        return tf.reduce_sum(w * tf.square(gap), axis=0) / tf.reduce_sum(w)


@tf.custom_gradient
def power_curve(steps, floor, gain, offset, exponent):
    # steps (runs, checkpoints); everything else (runs,).
    # Gives the loss at each checkpoint and its derivative in steps.
    shifted = steps + offset[:, tf.newaxis]
    alpha = exponent[:, tf.newaxis]
    amp = gain[:, tf.newaxis]
    log_shifted = tf.math.log(shifted)
    decay = tf.exp(-alpha * log_shifted)
    loss = floor[:, tf.newaxis] + amp * decay
    slope = -alpha * amp * decay / shifted

    def grad(g_loss, g_slope):
        bend = -slope * (alpha + 1.0) / shifted
        d_shifted = g_loss * slope + g_slope * bend
        d_floor = tf.reduce_sum(g_loss, axis=1)
        d_gain = tf.reduce_sum(
            decay * (g_loss - g_slope * alpha / shifted), axis=1)
        d_exponent = tf.reduce_sum(
            -g_loss * amp * decay * log_shifted
            + g_slope * amp * decay * (alpha * log_shifted - 1.0) / shifted, axis=1)
        return d_shifted, d_floor, d_gain, tf.reduce_sum(d_shifted, axis=1), d_exponent

    return (loss, slope), grad


def steps_to_reach(params: CurveParams, target):
    """Steps at which each curve meets ``target``; inf below the floor."""
    room = (target - params.floor) / params.gain
    reach = tf.pow(tf.maximum(room, 1e-12), -1.0 / params.exponent) - params.offset
    return tf.where(room > 0.0, reach, tf.fill(tf.shape(reach), np.float32(np.inf)))


def rank_by_extrapolation(params: CurveParams, horizon: float):
    n = tf.fill([tf.shape(params.floor)[0], 1], tf.cast(horizon, params.floor.dtype))
    loss, _ = power_curve(n, *params)
    return tf.argsort(loss[:, 0])


class SweepModel(tf.Module):
    """Joint fit of priors, shrinkage strengths and learning curves of a sweep."""

    def __init__(self, sweep: Sweep, slope_weight: float = 0.1, name=None):
        super().__init__(name=name)
        runs, metrics = sweep.scores.shape
        self.sweep = sweep
        self.slope_weight = slope_weight
        self.prior = tf.Variable(tf.zeros([metrics]), name="prior")
        self.raw_strength = tf.Variable(tf.zeros([metrics]), name="raw_strength")
        self.raw_seed_strength = tf.Variable(0.0, name="raw_seed_strength")
        start = np.asarray(sweep.losses, np.float32)
        self.floor = tf.Variable(0.8 * start.min(axis=1), name="floor")
        self.raw_gain = tf.Variable(tf.zeros([runs]), name="raw_gain")
        self.raw_offset = tf.Variable(tf.zeros([runs]), name="raw_offset")
        self.raw_exponent = tf.Variable(-1.0 * tf.ones([runs]), name="raw_exponent")
        self._fill = make_score_filler(sweep.config, sweep.n_configs)
        self._seeds = SeedTable(sweep.config, sweep.n_configs)

    def curve_params(self) -> CurveParams:
        return CurveParams(
            floor=1.0 * self.floor,
            gain=tf.nn.softplus(self.raw_gain),
            offset=0.05 + tf.nn.softplus(self.raw_offset),
            exponent=tf.nn.softplus(self.raw_exponent),
        )

    def losses(self) -> Dict[str, tf.Tensor]:
        s = self.sweep
        scores = tf.constant(s.scores, tf.float32)
        observed = tf.constant(s.observed)
        strength = MIN_STRENGTH + tf.nn.softplus(self.raw_strength)
        filled = self._fill(scores, observed, 1.0 * self.prior, strength)
        noise = self._seeds.seed_noise(
            filled, tf.constant(s.eval_size, tf.float32), 1.0 * self.prior,
            MIN_STRENGTH + tf.nn.softplus(self.raw_seed_strength))

        steps = tf.constant(s.steps, tf.float32)
        fit, slope = power_curve(steps, *self.curve_params())
        seen = tf.constant(s.losses, tf.float32)
        seen_slope = (seen[:, 1:] - seen[:, :-1]) / (steps[:, 1:] - steps[:, :-1])
        mid_slope = 0.5 * (slope[:, 1:] + slope[:, :-1])
        return {
            "noise": tf.reduce_sum(noise),
            "curve": tf.reduce_mean(tf.square(fit - seen)),
            "slope": self.slope_weight * tf.reduce_mean(tf.square(mid_slope - seen_slope)),
        }

    def fit(self, iterations: int = 50, rate: float = 0.02):
        history = []
        for _ in range(iterations):
            with tf.GradientTape() as tape:
                total = tf.add_n(list(self.losses().values()))
            grads = tape.gradient(total, self.trainable_variables)
            for var, g in zip(self.trainable_variables, grads):
                if g is not None:
                    var.assign_sub(rate * tf.clip_by_norm(g, 1.0))
            history.append(float(total))
        return history


def demo_table(seed: int = 0) -> Sweep:
    rng = np.random.default_rng(seed)
    config = np.array([2, 0, 0, 1, 2, 2, 1, 0, 4])
    runs = len(config)
    steps = np.tile(np.geomspace(0.5, 32.0, 8), (runs, 1))
    losses = 1.7 + rng.uniform(0.6, 1.2, (runs, 1)) * (steps + 0.4) ** -0.35
    return Sweep(
        scores=rng.normal(0.6, 0.1, (runs, 3)),
        observed=rng.uniform(size=(runs, 3)) > 0.25,
        config=config,
        eval_size=rng.choice([0.5, 1.0, 5.0], runs),
        steps=steps,
        losses=losses + 0.01 * rng.normal(size=losses.shape),
    )


if __name__ == "__main__":
    model = SweepModel(demo_table())
    trail = model.fit(20)
    print(f"objective {trail[0]:.4f} -> {trail[-1]:.4f}")
    print("ranking at 256k steps:", rank_by_extrapolation(model.curve_params(), 256.0).numpy())
