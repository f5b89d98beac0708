"""Differentiable building blocks of the pricing and hazard models.

Each model is assembled from a few operators whose automatic gradients were too
large in memory (pairwise kernels, long recursions) or unstable, and which
therefore carry their own backward pass.  Everything runs eagerly and under
``tf.function``.
"""

import dataclasses
from typing import Callable, Sequence

import tensorflow as tf


def _fold_to(grad: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sums `grad` over the axes along which `like` was broadcast."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(like), s1=tf.shape(grad))
    return tf.reshape(tf.reduce_sum(grad, axis=axes), tf.shape(like))


# Tweedie regression ----------------------------------------------------


def make_tweedie_deviance(power: float = 1.5) -> Callable[..., tf.Tensor]:
    """Unit deviance of a Tweedie family with log link, less its claims-only part.

    Args:
      power: variance power, strictly between 1 and 2.

    Returns:
      ``deviance(eta, exposure, claims)``; the three arguments broadcast against
      each other, and the result has their common shape.  ``exposure`` > 0 and
      ``claims`` >= 0 (claims per unit of exposure).
    """
    if not 1.0 < power < 2.0:
        raise ValueError(f"power must lie in (1, 2), got {power}")
    a, b = 1.0 - power, 2.0 - power

    @tf.custom_gradient
    def deviance(eta, exposure, claims):
        low = tf.exp(a * eta)  # mu ** (1 - p)
        high = tf.exp(b * eta)  # mu ** (2 - p)
        unit = 2.0 * (high / b - claims * low / a)

        def grad(upstream):
            g_eta = upstream * exposure * 2.0 * (high - claims * low)
            g_exposure = upstream * unit
            g_claims = -2.0 * upstream * exposure * low / a
            pairs = ((g_eta, eta), (g_exposure, exposure), (g_claims, claims))
            return tuple(_fold_to(g, x) for g, x in pairs)

        return exposure * unit, grad

    return deviance


def tweedie_loss(eta, exposure, claims, power: float = 1.5):
    """Mean deviance of a portfolio."""
    dev = make_tweedie_deviance(power)(eta, exposure, claims)
    return tf.reduce_sum(dev) / tf.reduce_sum(exposure)


# survival --------------------------------------------------------------


@tf.custom_gradient
def stratified_cox_nll(eta: tf.Tensor, event: tf.Tensor, valid: tf.Tensor):
    """Negative log partial likelihood per observed event, one value a stratum.

    Args:
      eta: `[strata, subjects]` log hazards.  Within a stratum the subjects are
        ordered from the longest follow-up to the shortest, without ties;
        padding comes last.
      event: `[strata, subjects]` bool, True where the event was observed.
      valid: `[strata, subjects]` bool, False at padding.

    Returns:
      `[strata]`; zero for a stratum without events.
    """
    dead = tf.cast(tf.logical_and(event, valid), eta.dtype)
    floor = tf.constant(-1e30, eta.dtype)
    eta_v = tf.where(valid, eta, floor)
    log_risk = tf.math.cumulative_logsumexp(eta_v, axis=-1)
    terms = dead * (eta_v - log_risk)
    events = tf.reduce_sum(dead, axis=-1)
    nll = tf.math.divide_no_nan(-tf.reduce_sum(terms, axis=-1), events)

    def grad(upstream):
        top = tf.reduce_max(eta_v, axis=-1, keepdims=True)
        # Breslow increments, summed over the risk sets that contain a subject.
        hazard = dead * tf.exp(tf.minimum(top - log_risk, 600.0))
        cumulative = tf.cumsum(hazard, axis=-1, reverse=True)
        expected = tf.exp(eta_v - top) * cumulative
        scale = tf.math.divide_no_nan(upstream, tf.reduce_sum(dead))
        return scale[..., tf.newaxis] * (expected - dead), None, None

    return nll, grad


def cox_loss(eta, durations, event, valid):
    key = tf.where(valid, durations, -tf.ones_like(durations))
    order = tf.argsort(key, axis=-1, direction="DESCENDING", stable=True)
    args = (tf.gather(x, order, batch_dims=1) for x in (eta, event, valid))
    return tf.reduce_mean(stratified_cox_nll(*args))


# claim arrivals --------------------------------------------------------


@tf.custom_gradient
def hawkes_intensity(times, valid, mu, alpha, beta):
    r"""Intensity of an exponential Hawkes process just before each arrival.

    .. math:: \lambda_i = \mu + \alpha \beta \sum_{j<i} e^{-\beta (t_i - t_j)}

    ``times`` is ``(series, arrivals)``, increasing over the valid entries of a
    row; ``valid`` is a bool tensor of the same shape, and invalid arrivals
    neither excite nor report (their intensity is 0).  ``mu``, ``alpha`` and
    ``beta`` are positive, of shape ``(series,)``.
    """
    m = tf.cast(valid, times.dtype)
    n = tf.shape(times)[-1]
    earlier = tf.range(n)[:, tf.newaxis] > tf.range(n)[tf.newaxis, :]
    pair = tf.logical_and(valid[:, :, tf.newaxis], valid[:, tf.newaxis, :])
    pair = tf.logical_and(pair, earlier)
    lag = times[:, :, tf.newaxis] - times[:, tf.newaxis, :]
    lag = tf.where(pair, lag, tf.zeros_like(lag))
    decay = tf.exp(-beta[:, tf.newaxis, tf.newaxis] * lag)
    decay = tf.where(pair, decay, tf.zeros_like(decay))
    excite = tf.reduce_sum(decay, axis=-1)
    jump = alpha * beta
    lam = m * mu[:, tf.newaxis] + jump[:, tf.newaxis] * excite

    def grad(upstream):
        g_mu = tf.reduce_sum(upstream * m, axis=-1)
        g_alpha = beta * tf.reduce_sum(upstream * excite, axis=-1)
        weighted = excite - beta[:, tf.newaxis] * tf.reduce_sum(lag * decay, axis=-1)
        g_beta = alpha * tf.reduce_sum(upstream * weighted, axis=-1)
        caused = tf.einsum("bij,bi->bj", decay, upstream)
        slope = (jump * beta)[:, tf.newaxis]
        g_times = slope * (caused - upstream * excite)
        return g_times, None, g_mu, g_alpha, g_beta

    return lam, grad


class ClaimArrivals(tf.Module):
    """Arrival model with one set of parameters for each line of business."""

    def __init__(self, lines: int, dtype=tf.float32):
        super().__init__()
        self.raw = tf.Variable(tf.zeros([lines, 3], dtype), name="raw")

    def __call__(self, times, valid, line):
        par = tf.nn.softplus(tf.gather(tf.convert_to_tensor(self.raw), line))
        mu, alpha, beta = tf.unstack(par, axis=-1)
        return hawkes_intensity(times, valid, mu, alpha, beta)


# tariff ----------------------------------------------------------------


@tf.custom_gradient
def rated_premium(base, table, levels):
    """Base premium times the relativities of a policy's rating levels.

    base:   (policies,)
    table:  (factors, max_levels) log relativities
    levels: (policies, factors) int, the level of the policy in each factor
    """
    factors = tf.range(tf.shape(levels)[1], dtype=levels.dtype)
    cells = tf.stack([tf.broadcast_to(factors, tf.shape(levels)), levels], axis=-1)
    relativity = tf.exp(tf.reduce_sum(tf.gather_nd(table, cells), axis=-1))
    premium = base * relativity

    def grad(upstream):
        per_policy = upstream * premium
        per_cell = tf.broadcast_to(per_policy[:, tf.newaxis], tf.shape(levels))
        g_table = tf.tensor_scatter_nd_update(tf.zeros_like(table), cells, per_cell)
        return upstream * relativity, g_table, None

    return premium, grad


class TariffTable(tf.keras.layers.Layer):
    def __init__(self, level_counts: Sequence[int], **kwargs):
        super().__init__(**kwargs)
        self.level_counts = tuple(level_counts)

    def build(self, input_shape=None):
        shape = (len(self.level_counts), max(self.level_counts))
        self.table = self.add_weight(shape=shape, initializer="zeros", name="log_rel")

    def call(self, base, levels):
        return rated_premium(base, tf.convert_to_tensor(self.table), levels)


# flood -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SoilConfig:
    """Initial abstraction as a fraction of the retention; metric CN scale."""

    ia_ratio: float = 0.2
    cn_scale: float = 25400.0
    cn_shift: float = 254.0

    def retention(self, curve_number):
        return self.cn_scale / curve_number - self.cn_shift


def build_runoff_op(cfg: SoilConfig = SoilConfig()):
    """Curve-number runoff depth, ``runoff(rain, retention)``.

    ``rain`` is [storms, cells] (mm, non-negative), ``retention`` is [cells]
    (mm, positive).  No runoff until the initial abstraction
    ``cfg.ia_ratio * retention`` is filled.
    """
    lam = cfg.ia_ratio

    @tf.custom_gradient
    def runoff(rain, retention):
        excess = tf.nn.relu(rain - lam * retention)
        frac = excess / (rain + (1.0 - lam) * retention)

        def grad(upstream):
            g_rain = upstream * frac * (2.0 - frac)
            g_ret = -upstream * frac * (0.4 + 0.8 * frac)
            return g_rain, tf.reduce_sum(g_ret, axis=0)

        return excess * frac, grad

    return runoff


class CatchmentLayer(tf.Module):
    def __init__(self, curve_numbers, cfg: SoilConfig = SoilConfig()):
        super().__init__()
        self.cfg = cfg
        self.curve_numbers = tf.Variable(curve_numbers, name="cn")
        self._op = build_runoff_op(cfg)

    @tf.function
    def __call__(self, rain, area):
        depth = self._op(rain, self.cfg.retention(tf.convert_to_tensor(self.curve_numbers)))
        return tf.linalg.matvec(depth, area)


# pandemic --------------------------------------------------------------


@tf.custom_gradient
def renewal_incidence(reproduction, interval, seeds):
    """Incidence under the renewal equation ``I[t] = R[t] * sum_s w[s] I[t-1-s]``.

    Args:
      reproduction: `[regions, days]`.
      interval: `[lags]` generation interval weights, shortest lag first.
      seeds: `[regions, lags]` incidence before day 0, most recent first.

    Returns:
      `[regions, days]`.
    """
    r_days = tf.transpose(reproduction)

    def step(state, r):
        past, _ = state
        new = r * tf.linalg.matvec(past, interval)
        return tf.concat([new[:, tf.newaxis], past[:, :-1]], axis=1), new

    after, new = tf.scan(step, r_days, initializer=(seeds, tf.zeros_like(seeds[:, 0])))
    before = tf.concat([seeds[tf.newaxis], after[:-1]], axis=0)  # [days, regions, lags]

    def grad(upstream):
        def back(carry, day):
            adj, _, g_w = carry
            g, r, past = day
            g_new = g + adj[:, 0]
            g_r = g_new * tf.linalg.matvec(past, interval)
            g_force = (g_new * r)[:, tf.newaxis]
            shifted = tf.concat([adj[:, 1:], tf.zeros_like(adj[:, :1])], axis=1)
            return (
                shifted + g_force * interval,
                g_r,
                g_w + tf.reduce_sum(g_force * past, axis=0),
            )

        start = (tf.zeros_like(seeds), tf.zeros_like(seeds[:, 0]), tf.zeros_like(interval))
        days = (tf.transpose(upstream), r_days, before)
        adj, g_r, g_w = tf.scan(back, days, initializer=start, reverse=True)
        return tf.transpose(g_r), g_w[0], adj[0]

    return tf.transpose(new), grad


def project_epidemic(log_r, interval_logits, seeds):
    """Daily incidence from unconstrained parameters."""
    return renewal_incidence(tf.exp(log_r), tf.nn.softmax(interval_logits), seeds)
