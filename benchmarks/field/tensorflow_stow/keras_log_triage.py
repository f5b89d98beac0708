"""Triage of server logs: which sessions and services deserve a look.

Log lines are reduced upstream to *templates* (the constant part of the message,
e.g. "Connection to <*> refused after <*> ms").  Two parts of the triage network
live here, with layers around them:

- a session is a bag of template ids, embedded and averaged with a learned
  informativeness per template (chatty health-check lines soon get almost none);
- a service is a series of line counts per minute, and each minute is scored
  against the minutes just before it.

Works under every Keras 3 backend.  Integer tables (template ids, lengths) are
bound when the function is made, so that only floating tensors pass through the
functions with custom gradients.
"""

from typing import List, Sequence

import keras
import numpy as np
from keras import ops

PAD_ID = 0
DEFAULT_WINDOW = 15          # minutes of history
DEFAULT_PSEUDO = 2.0         # minutes the prior rate is worth
DEFAULT_CAP = 8.0            # scores are clipped to +/- this many deviations
RATE_FLOOR = 0.5


# ---------------------------------------------------------------------------
# input preparation
# ---------------------------------------------------------------------------


def pad_sessions(sessions: Sequence[Sequence[int]], length: int = None) -> np.ndarray:
    """Right-pads (and truncates) lists of template ids with PAD_ID.

    >>> pad_sessions([[3, 3, 1], []])
    array([[3, 3, 1],
           [0, 0, 0]])
    """
    length = length or max((len(s) for s in sessions), default=1) or 1
    table = np.full((len(sessions), length), PAD_ID, dtype="int32")
    for row, session in zip(table, sessions):
        ids = list(session)[:length]
        row[: len(ids)] = ids
    return table


def counts_per_minute(timestamps: Sequence[float], minutes: int) -> np.ndarray:
    slots = np.floor(np.asarray(timestamps) / 60.0).astype(int)
    slots = slots[(slots >= 0) & (slots < minutes)]
    return np.bincount(slots, minlength=minutes).astype("float32")


def history_bounds(steps: int, window: int):
    """First step and number of steps of the history of every step."""
    index = np.arange(steps)
    first = np.maximum(index - window, 0)
    return first.astype("int32"), (index - first).astype("float32")


# ---------------------------------------------------------------------------
# sessions
# ---------------------------------------------------------------------------


def make_session_mean(template_ids: np.ndarray):
    """Binds a padded id table, (sessions, lines), to the pooling function.

    The returned function maps ``table`` (templates, width) and ``weight``
    (templates,), non-negative, to the weighted mean embedding of each session,
    (sessions, width).  Padding does not count.  A template that occurs five times
    in a session counts five times.  Sessions without a line, or whose lines all
    have weight zero, give the zero vector.
    """
    template_ids = np.asarray(template_ids, dtype="int32")
    real = (template_ids != PAD_ID)

    @ops.custom_gradient
    def session_mean(table, weight):
        ids = ops.convert_to_tensor(template_ids)
        mask = ops.cast(ops.convert_to_tensor(real), table.dtype)
        templates, width = table.shape
        rows = ops.take(table, ids, axis=0)                      # s l d
        w = ops.take(weight, ids, axis=0) * mask                 # s l
        total = ops.sum(w, axis=1, keepdims=True)
        alive = ops.cast(total > 0.0, table.dtype)
        safe = total + (1.0 - alive)
        mean = ops.sum(ops.expand_dims(w, 2) * rows, axis=1) / safe

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            per_unit = upstream * alive / safe                   # s d
            flat = ops.reshape(ids, (-1,))
            to_rows = ops.expand_dims(w, 2) * ops.expand_dims(per_unit, 1)
            d_table = ops.segment_sum(
                ops.reshape(to_rows, (-1, width)), flat, num_segments=templates)
            deviation = rows - ops.expand_dims(mean, 1)
            to_w = ops.sum(deviation * ops.expand_dims(per_unit, 1), axis=2) * mask
            d_weight = ops.segment_sum(
                ops.reshape(to_w, (-1,)), flat, num_segments=templates)
            return d_table, d_weight

        return mean, grad

    return session_mean


# ---------------------------------------------------------------------------
# services
# ---------------------------------------------------------------------------


def make_burst_score(window: int = DEFAULT_WINDOW, pseudo: float = DEFAULT_PSEUDO,
                     cap: float = DEFAULT_CAP):
    """Scores each minute of a count series against its recent past.

    Args:
        window: minutes of history; the minute scored is not among them.
        pseudo: weight of the prior rate, in minutes. Positive.
        cap: bound on the absolute score.

    Returns:
        ``burst_score(rate, prior)`` for ``rate`` (services, minutes) and ``prior``
        (services,), both non-negative; the result has the shape of ``rate``.
    """
    if window < 1:
        raise ValueError("window must be at least one minute")

    @ops.custom_gradient
    def burst_score(rate, prior):
        steps = rate.shape[1]
        first, held = history_bounds(steps, window)
        minutes = ops.cast(ops.convert_to_tensor(held), rate.dtype) + pseudo
        running = ops.pad(ops.cumsum(rate, axis=1), ((0, 0), (1, 0)))
        recent = running[:, :-1] - ops.take(running, ops.convert_to_tensor(first), axis=1)
        expected = (recent + pseudo * ops.expand_dims(prior, 1)) / minutes
        variance = expected + RATE_FLOOR
        scale = ops.rsqrt(variance)
        raw = (rate - expected) * scale
        score = ops.clip(raw, -cap, cap)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = upstream * ops.cast(ops.abs(raw) < cap, upstream.dtype)
            direct = g * scale
            to_expected = -direct - 0.5 * g * raw / variance
            share = to_expected / minutes
            later = ops.flip(ops.cumsum(ops.flip(share, axis=1), axis=1), axis=1) - share
            d_rate = direct + later
            d_prior = pseudo * ops.sum(share, axis=1)
            return d_rate, d_prior

        return score, grad

    return burst_score


# ---------------------------------------------------------------------------
# layers
# ---------------------------------------------------------------------------


class SessionEncoder(keras.layers.Layer):
    """Embedding of template bags.

    The id table arrives as a numpy array (it comes from the parser, outside of
    the graph), hence ``encode`` rather than ``call`` on symbolic ids.
    """

    def __init__(self, templates: int, width: int = 32, **kwargs):
        super().__init__(**kwargs)
        self.templates = templates
        self.width = width

    def build(self, input_shape=None):
        self.table = self.add_weight(
            shape=(self.templates, self.width), initializer="random_normal", name="table")
        self.informativeness = self.add_weight(
            shape=(self.templates,), initializer="zeros", name="informativeness")
        self.built = True

    def encode(self, template_ids: np.ndarray):
        if not self.built:
            self.build()
        pool = make_session_mean(template_ids)
        return pool(1.0 * self.table, ops.softplus(self.informativeness))

    def most_informative(self, k: int = 10) -> List[int]:
        values = ops.convert_to_numpy(self.informativeness)
        return np.argsort(-values)[:k].tolist()


class SmoothedRate(keras.layers.Layer):
    """Causal smoothing of the counts with a learned kernel, (services, minutes)."""

    def __init__(self, taps: int = 5, **kwargs):
        super().__init__(**kwargs)
        self.taps = taps

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(self.taps,), initializer="zeros", name="kernel")
        super().build(input_shape)

    def call(self, counts):
        taps = ops.softmax(self.kernel)
        padded = ops.pad(counts, ((0, 0), (self.taps - 1, 0)))
        steps = counts.shape[1]
        out = 0.0
        for k in range(self.taps):
            out = out + taps[k] * padded[:, self.taps - 1 - k: self.taps - 1 - k + steps]
        return out


class BurstHead(keras.layers.Layer):
    """Alert probability per service and minute.

    Parameters
    ----------
    services : int
    window : int, optional
        Minutes of history. The on-call rotation looks at the last two hours of
        counts, so series are usually eight windows long.
    """

    def __init__(self, services: int, window: int = DEFAULT_WINDOW, **kwargs):
        super().__init__(**kwargs)
        self.services = services
        self.window = window
        self.smooth = SmoothedRate()
        self._score = make_burst_score(window)

    def build(self, input_shape):
        self.smooth.build(input_shape)
        self.raw_prior = self.add_weight(
            shape=(self.services,), initializer="ones", name="raw_prior")
        self.gain = self.add_weight(shape=(), initializer="ones", name="gain")
        self.bias = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(-3.0), name="bias")
        super().build(input_shape)

    def call(self, counts):
        score = self._score(self.smooth(counts), ops.softplus(self.raw_prior))
        return ops.sigmoid(self.gain * score + self.bias)


def triage_loss(probability, incident, positive_weight: float = 20.0):
    """Weighted cross-entropy; incidents are rare."""
    eps = 1e-6
    hit = incident * ops.log(probability + eps)
    miss = (1.0 - incident) * ops.log(1.0 - probability + eps)
    return -ops.mean(positive_weight * hit + miss)


def synthetic_counts(services: int, minutes: int, seed: int = 0):
    """Poisson counts with one burst per service; returns counts and labels."""
    rng = np.random.default_rng(seed)
    rate = rng.uniform(2.0, 12.0, (services, 1)) * np.ones((services, minutes))
    label = np.zeros((services, minutes), "float32")
    for i in range(services):
        at = rng.integers(minutes // 4, minutes - 5)
        rate[i, at: at + 4] *= 4.0
        label[i, at: at + 4] = 1.0
    return rng.poisson(rate).astype("float32"), label


if __name__ == "__main__":
    table = pad_sessions([[3, 3, 7, 1], [], [2, 5], [7, 7, 7, 7, 7, 4]])
    encoder = SessionEncoder(templates=9, width=6)
    print("sessions", ops.shape(encoder.encode(table)))
    counts, label = synthetic_counts(4, 120)
    head = BurstHead(4)
    probability = head(ops.convert_to_tensor(counts))
    print("loss", float(triage_loss(probability, ops.convert_to_tensor(label))))
