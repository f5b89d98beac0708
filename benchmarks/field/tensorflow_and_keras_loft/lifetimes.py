"""Likelihoods for time-to-event models with censoring.

Durations are measured from the subject's entry.  A subject whose event was not seen is censored:
it contributes the probability of having survived for as long as it was observed.
"""

import numpy as np
import tensorflow as tf


def make_piecewise_exponential(breaks):
    """Piecewise-exponential likelihood with the given interior break points.

    `breaks` is an increasing sequence of K - 1 positive numbers that cuts the time axis into K
    intervals, the last without an end. The returned function maps log hazards (one row of K for
    every subject), durations (positive, one per subject) and the boolean event indicators to the
    negative log likelihood of every subject. Durations may come from an upstream model, for example
    an accelerated time scale, hence they get a gradient as well.
    """
    edges = np.concatenate([[0.0], np.asarray(breaks, dtype=np.float64)])
    widths = np.concatenate([np.diff(edges), [np.inf]])
    if np.any(widths <= 0):
        raise ValueError("breaks must be increasing and positive")

    @tf.custom_gradient
    def piecewise_exponential_nll(log_hazard, duration, event):
        dtype = log_hazard.dtype
        lower = tf.constant(edges, dtype)
        width = tf.constant(widths, dtype)
        exposure = tf.minimum(tf.nn.relu(duration[:, None] - lower), width)
        inside = tf.searchsorted(lower[1:], duration, side="right")
        died = tf.cast(event, dtype)
        hazard = tf.exp(log_hazard)
        at_event = tf.gather(log_hazard, inside, batch_dims=1)
        nll = tf.reduce_sum(hazard * exposure, axis=-1) - died * at_event

        def grad(dnll):
            hot = tf.one_hot(inside, len(edges), dtype=dtype)
            d_log_hazard = dnll[:, None] * (hazard * exposure - died[:, None] * hot)
            d_duration = dnll * tf.reduce_sum(hazard * hot, axis=-1)
            return d_log_hazard, d_duration, None

        return nll, grad

    return piecewise_exponential_nll


five_year_nll = make_piecewise_exponential((0.5, 1.0, 2.0, 5.0))


@tf.custom_gradient
def competing_risk_nll(logits, bin_index, cause, weight):
    """Discrete-time likelihood with competing causes, as in DeepHit.

    Every subject has a table of logits, causes by time bins. Together with one more outcome, of
    logit zero, that stands for "after the last bin", they form a single softmax. A subject with
    cause c > 0 failed from it in its time bin; a subject with cause 0 was censored in its bin and is
    known to fail later, from whichever cause, the extra outcome included. The weight multiplies each
    subject's term.
    """
    shape = tf.shape(logits)
    batch, causes, bins = shape[0], shape[1], shape[2]
    flat = tf.reshape(logits, [batch, causes * bins])
    full = tf.concat([flat, tf.zeros([batch, 1], logits.dtype)], axis=-1)
    log_norm = tf.reduce_logsumexp(full, axis=-1)

    column = tf.range(bins)[None, None, :]
    row = tf.range(causes)[None, :, None]
    at = bin_index[:, None, None]
    observed = tf.cast((row == cause[:, None, None] - 1) & (column == at), logits.dtype)
    later = tf.broadcast_to(column > at, shape)
    floor = tf.constant(logits.dtype.min, logits.dtype)
    tail = tf.concat(
        [
            tf.reshape(tf.where(later, logits, floor), [batch, causes * bins]),
            tf.zeros([batch, 1], logits.dtype),
        ],
        axis=-1,
    )
    log_tail = tf.reduce_logsumexp(tail, axis=-1)
    log_event = tf.reduce_sum(observed * logits, axis=[1, 2])
    censored = cause == 0
    value = log_norm - tf.where(censored, log_tail, log_event)

    def grad(upstream):
        prob = tf.exp(logits - log_norm[:, None, None])
        survivors = tf.cast(column >= at, logits.dtype)
        conditional = survivors * tf.exp(logits - log_tail[:, None, None])
        target = tf.where(censored[:, None, None], conditional, observed)
        d_logits = (upstream * weight)[:, None, None] * (prob - target)
        return d_logits, None, None, upstream * value

    return weight * value, grad


class CompetingRiskHead(tf.Module):
    """Affine head over an embedding, with a table of causes by bins for its output."""

    def __init__(self, features, causes, bins, seed=0, name=None):
        super().__init__(name=name)
        rng = np.random.default_rng(seed)
        self.causes, self.bins = causes, bins
        self.kernel = tf.Variable(
            rng.normal(scale=features ** -0.5, size=(features, causes * bins)).astype("float32")
        )
        self.bias = tf.Variable(tf.zeros([causes * bins]))

    def __call__(self, embedding):
        out = tf.matmul(embedding, self.kernel) + self.bias
        return tf.reshape(out, [-1, self.causes, self.bins])

    def loss(self, embedding, record):
        per_subject = competing_risk_nll(
            self(embedding), record["bin"], record["cause"], record["weight"]
        )
        return tf.reduce_sum(per_subject) / tf.reduce_sum(record["weight"])
