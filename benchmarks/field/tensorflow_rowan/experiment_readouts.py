"""Differentiable readouts for online controlled experiments.

Analysts of the experimentation platform train small networks that predict a
control variate, a trigger weight or a session count model, and want to judge
them by what they do to the readout itself: the arm means, the variance left
after CUPED, and the standard error of ratio metrics (clicks per session and
the like).  The readouts below are written with explicit gradients so that they
can be used as training objectives over millions of rows without holding on to
per-arm intermediates.

Conventions: ``N`` randomisation units (users), ``M`` metrics, ``K`` arms.  Arms
are int32 codes in ``[0, K)``; arm 0 is control.
"""

import dataclasses
from typing import Dict, Optional, Tuple

import numpy as np
import tensorflow as tf

CONTROL = 0
#: two-sided 95 % point of the normal distribution
Z_95 = 1.959963984540054
#: smallest sum of squares CUPED will divide by
VARIANCE_FLOOR = 1e-12
#: arms with fewer units are not read out
MIN_UNITS = 2


@dataclasses.dataclass(frozen=True)
class ReadoutConfig:
    """Settings of one experiment's readout."""

    num_arms: int = 2
    tempering: float = 1.0
    ridge: float = 0.0
    metrics: Tuple[str, ...] = ("revenue", "orders")


def _by_arm(values, arms, num_arms):
    return tf.math.unsorted_segment_sum(values, arms, num_arms)


def _arm_counts(arms, num_arms, dtype):
    return _by_arm(tf.ones_like(arms, dtype=dtype), arms, num_arms)


def _centre_within(values, arms, num_arms):
    """Subtract each arm's mean from its units; values (N, M)."""
    counts = tf.maximum(_arm_counts(arms, num_arms, values.dtype), 1.0)
    means = _by_arm(values, arms, num_arms) / counts[:, None]
    return values - tf.gather(means, arms)


# --------------------------------------------------------------------------
# weighted arm means
# --------------------------------------------------------------------------
def make_hajek_means(num_arms: int, tempering: float = 1.0):
    """Build the self-normalised (Hajek) estimator of arm means.

    Args:
        num_arms: number of arms K.
        tempering: exponent put on the inverse-propensity weights. 1 keeps them;
            values between 0 and 1 trade bias for variance.

    Returns:
        A function of ``(outcomes, log_weights, arms)`` with shapes (N, M), (N,)
        and (N,), giving the (K, M) means. Each arm's weights sum to one. An arm
        without units reads zero.
    """

    @tf.custom_gradient
    def hajek_means(outcomes, log_weights, arms):
        scaled = tempering * log_weights
        top = tf.math.unsorted_segment_max(scaled, arms, num_arms)
        raw = tf.exp(scaled - tf.gather(top, arms))
        total = tf.gather(_by_arm(raw, arms, num_arms), arms)
        share = raw / total
        means = _by_arm(share[:, None] * outcomes, arms, num_arms)

        def grad(upstream):
            pulled = tf.gather(upstream, arms)  # (N, M)
            outcomes_bar = share[:, None] * pulled
            spread = outcomes - tf.gather(means, arms)
            log_weights_bar = share * tf.reduce_sum(pulled * spread, axis=1)
            return outcomes_bar, log_weights_bar, None

        return means, grad

    return hajek_means


def effective_units(log_weights, arms, num_arms):
    """Kish's effective sample size per arm."""
    weights = tf.exp(log_weights - tf.reduce_max(log_weights))
    first = _by_arm(weights, arms, num_arms)
    second = _by_arm(weights**2, arms, num_arms)
    return tf.math.divide_no_nan(first**2, second)


# --------------------------------------------------------------------------
# CUPED
# --------------------------------------------------------------------------
def make_cuped_variance(num_arms: int, ridge: float = 0.0):
    """Variance of each metric left after subtracting its control variate.

    The coefficient is fitted within arms and pooled,

        theta = S_xy / (S_xx + ridge),
        V     = (S_yy - S_xy^2 / (S_xx + ridge)) / (N - K).

    The inner function takes ``metric`` and ``covariate``, both (N, M), and arms
    (N,), and returns the pair V (M,), theta (M,).
    """

    @tf.custom_gradient
    def cuped_variance(metric, covariate, arms):
        y = _centre_within(metric, arms, num_arms)
        x = _centre_within(covariate, arms, num_arms)
        s_xx = tf.maximum(tf.reduce_sum(x * x, axis=0) + ridge, VARIANCE_FLOOR)
        s_xy = tf.reduce_sum(x * y, axis=0)
        s_yy = tf.reduce_sum(y * y, axis=0)
        theta = s_xy / s_xx
        freedom = tf.cast(tf.shape(metric)[0] - num_arms, metric.dtype)
        variance = (s_yy - theta * s_xy) / freedom

        def grad(variance_bar, theta_bar):
            scale = 2.0 * variance_bar / freedom
            tilt = theta_bar / s_xx
            metric_bar = scale * (y - theta * x) + tilt * x
            covariate_bar = scale * theta * (theta * x - y) + tilt * (y - 2.0 * theta * x)
            return metric_bar, covariate_bar, None

        return (variance, theta), grad

    return cuped_variance


class ControlVariate(tf.keras.layers.Layer):
    """Two-layer network predicting metrics from pre-period features."""

    def __init__(self, metrics: int, hidden: int = 16, **kwargs):
        super().__init__(**kwargs)
        self.hidden = tf.keras.layers.Dense(hidden, activation="tanh")
        self.readout = tf.keras.layers.Dense(metrics)

    def call(self, features):
        return self.readout(self.hidden(features))


# --------------------------------------------------------------------------
# ratio metrics
# --------------------------------------------------------------------------
class RatioMetric:
    """Ratio metric such as clicks per session, with units as clusters.

    Parameters
    ----------
    num_arms : int
    log_scale : bool
        Report the variance of the log ratio in place of the ratio.
    """

    def __init__(self, num_arms: int, log_scale: bool = False):
        self.num_arms = num_arms
        self.log_scale = log_scale
        self.delta_variance = self._make_delta_variance()

    def ratio(self, numer, denom, arms):
        top = _by_arm(numer, arms, self.num_arms)
        return tf.math.divide_no_nan(top, _by_arm(denom, arms, self.num_arms))

    def _make_delta_variance(self):
        num_arms = self.num_arms

        @tf.custom_gradient
        def delta_variance(numer, denom, arms):
            """Delta-method variance of sum(numer) / sum(denom) in every arm.

            numer, denom: (N,) per-user totals, denominators positive.
            Every arm needs at least two users.  Returns (K,).
            """
            counts = _arm_counts(arms, num_arms, numer.dtype)
            exposure = _by_arm(denom, arms, num_arms)
            ratio = _by_arm(numer, arms, num_arms) / exposure
            residual = numer - tf.gather(ratio, arms) * denom
            squares = _by_arm(residual * residual, arms, num_arms)
            bessel = counts / (counts - 1.0)
            variance = bessel * squares / exposure**2

            def grad(upstream):
                # residual part, then the exposure in front
                lever = tf.gather(2.0 * upstream * bessel / exposure**2, arms)
                residual_bar = lever * residual
                exposure_bar = tf.gather(-2.0 * upstream * variance / exposure, arms)
                numer_bar = residual_bar
                denom_bar = exposure_bar - residual_bar * tf.gather(ratio, arms)
                return numer_bar, denom_bar, None

            return variance, grad

        return delta_variance

    def __call__(self, numer, denom, arms):
        variance = self.delta_variance(numer, denom, arms)
        ratio = self.ratio(numer, denom, arms)
        if self.log_scale:
            return tf.math.log(ratio), variance / ratio**2
        return ratio, variance


# --------------------------------------------------------------------------
# readout
# --------------------------------------------------------------------------
def lift_interval(means, variances, counts, arm) -> Dict[str, tf.Tensor]:
    """Difference to control and half width of its 95 % interval."""
    lift = means[arm] - means[CONTROL]
    error = variances / counts[arm] + variances / counts[CONTROL]
    return {"lift": lift, "half_width": Z_95 * tf.sqrt(error)}


class Readout:
    def __init__(self, config: ReadoutConfig):
        self.config = config
        self.means = make_hajek_means(config.num_arms, config.tempering)
        self.cuped = make_cuped_variance(config.num_arms, config.ridge)
        self.ratio = RatioMetric(config.num_arms, log_scale=True)

    def table(self, outcomes, covariate, log_weights, arms):
        counts = _arm_counts(arms, self.config.num_arms, outcomes.dtype)
        if int(tf.reduce_min(counts)) < MIN_UNITS:
            raise ValueError("an arm has too few units to read out")
        variance, theta = self.cuped(outcomes, covariate, arms)
        centred = covariate - tf.reduce_mean(covariate, axis=0)
        means = self.means(outcomes - theta * centred, log_weights, arms)
        return {
            arm: lift_interval(means, variance, counts, arm)
            for arm in range(self.config.num_arms)
            if arm != CONTROL
        }


def train_control_variate(
    features: np.ndarray,
    outcomes: np.ndarray,
    arms: np.ndarray,
    config: ReadoutConfig,
    epochs: int = 20,
    seed: Optional[int] = None,
):
    """Fit a control variate by the mean log of the variance it leaves."""
    if seed is not None:
        tf.keras.utils.set_random_seed(seed)
    network = ControlVariate(outcomes.shape[1])
    objective = make_cuped_variance(config.num_arms, config.ridge)
    optimiser = tf.keras.optimizers.Adam(1e-2)
    features = tf.constant(features, tf.float32)
    outcomes = tf.constant(outcomes, tf.float32)
    arms = tf.constant(arms, tf.int32)
    trace = []
    for _ in range(epochs):
        with tf.GradientTape() as tape:
            left, _ = objective(outcomes, network(features), arms)
            loss = tf.reduce_mean(tf.math.log(left))
        weights = network.trainable_variables
        optimiser.apply_gradients(zip(tape.gradient(loss, weights), weights))
        trace.append(float(loss))
    return network, trace


def main():
    rng = np.random.default_rng(11)
    users, config = 400, ReadoutConfig(num_arms=3, ridge=1e-3)
    arms = rng.integers(0, config.num_arms, users)
    features = rng.normal(size=(users, 5))
    outcomes = features @ rng.normal(size=(5, 2)) + rng.normal(size=(users, 2))
    outcomes += 0.2 * arms[:, None]
    network, trace = train_control_variate(features, outcomes, arms, config, seed=1)
    print("log variance", trace[0], "->", trace[-1])

    readout = Readout(config)
    covariate = network(tf.constant(features, tf.float32))
    codes = tf.constant(arms, tf.int32)
    weights = tf.constant(0.3 * rng.normal(size=users), tf.float32)
    for arm, row in readout.table(
        tf.constant(outcomes, tf.float32), covariate, weights, codes
    ).items():
        print(arm, {k: v.numpy().round(3) for k, v in row.items()})

    sessions = tf.constant(1.0 + rng.poisson(3.0, users), tf.float32)
    clicks = tf.constant(rng.poisson(0.4 * sessions.numpy()), tf.float32)
    print("clicks per session", readout.ratio(clicks, sessions, codes))


if __name__ == "__main__":
    main()
