"""Training through split conformal prediction.

A classifier is usually trained first and conformalised later.  Here the
calibration takes part in training: half of each batch sets the threshold,
the other half pays for the size of its prediction sets.  Groups (language,
device, hospital, ...) are calibrated separately, so the number of calibration
items behind one threshold can be anything from a handful to thousands.

Notation
--------
``scores``      nonconformity, low is good
``alpha``       tolerated miscoverage
``temperature`` width of the logistic that replaces the step functions

Works on the TensorFlow and JAX backends of Keras 3.
"""

import math
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

# A finite threshold must exist even for a handful of calibration items.
COVERAGE_CAP = 0.995

BISECTIONS = 60
DEFAULT_ALPHA = 0.1
DEFAULT_TEMPERATURE = 0.1


class ConformalBatch(NamedTuple):
    cal_scores: object  # [G, N]
    cal_weights: object  # [G, N], zero for padding
    test_scores: object  # [B, C]
    test_group: object  # [B] int


def aps_free_scores(logits):
    """Negative log probabilities as nonconformity scores."""
    return -ops.log_softmax(logits, axis=-1)


def true_class_scores(scores, labels):
    picked = ops.take_along_axis(scores, ops.expand_dims(labels, -1), axis=-1)
    return ops.squeeze(picked, -1)


def pack_groups(values, groups, n_groups):
    """Lay out a flat calibration list as a padded [G, N] array and its weights.

    Host side; ``values`` only gives dtype and size.
    Returns the gather index [G, N] and the 0/1 weights [G, N].
    """
    groups = np.asarray(groups)
    members = [np.flatnonzero(groups == g) for g in range(n_groups)]
    longest = max(1, max(len(m) for m in members))
    index = np.zeros((n_groups, longest), np.int32)
    weight = np.zeros((n_groups, longest), np.asarray(values).dtype)
    for g, m in enumerate(members):
        index[g, : len(m)] = m
        weight[g, : len(m)] = 1.0
    return index, weight


# ---------------------------------------------------------------------------
# threshold
# ---------------------------------------------------------------------------


def coverage_target(weights, alpha):
    """Weighted count to be covered, with the finite sample correction.

    ``(1 - alpha) (W + 1)`` of the total weight ``W``, at most
    ``COVERAGE_CAP * W``.
    """
    total = ops.sum(weights, axis=-1)
    return ops.minimum((1.0 - alpha) * (total + 1.0), COVERAGE_CAP * total)


def make_calibrated_cutoff(alpha=DEFAULT_ALPHA, temperature=DEFAULT_TEMPERATURE):
    """Smooth conformal threshold, one per group.

    Solves

        sum_i w_i sigmoid((q - s_i) / temperature) = coverage_target(w, alpha)

    for ``q`` by bisection; derivatives come from the implicit function
    theorem.

    Args:
        alpha: miscoverage.
        temperature: softness of the empirical distribution function.

    Returns:
        Function of ``scores`` and ``weights``, both ``(G, N)``, giving ``(G,)``.
        Weights may be importance weights that are themselves learnt
        (covariate shift); each group needs a positive total.
    """

    @ops.custom_gradient
    def calibrated_cutoff(scores, weights):
        target = coverage_target(weights, alpha)
        reach = 40.0 * temperature
        low = ops.min(scores, axis=-1) - reach
        high = ops.max(scores, axis=-1) + reach
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            level = ops.sigmoid((middle[:, None] - scores) / temperature)
            short = ops.sum(weights * level, axis=-1) < target
            low = ops.where(short, middle, low)
            high = ops.where(short, high, middle)
        threshold = 0.5 * (low + high)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            covered = ops.sigmoid((threshold[:, None] - scores) / temperature)
            density = weights * covered * (1.0 - covered) / temperature
            by_threshold = ops.sum(density, axis=-1, keepdims=True)
            share = upstream[:, None] / by_threshold
            d_scores = share * density
            d_weights = share * ((1.0 - alpha) - covered)
            return d_scores, d_weights

        return threshold, grad

    return calibrated_cutoff


# ---------------------------------------------------------------------------
# set size
# ---------------------------------------------------------------------------


def make_set_size(temperature=DEFAULT_TEMPERATURE, allowance=1.0):
    """Cost of a prediction set: its soft size in excess of ``allowance``."""

    @ops.custom_gradient
    def set_size(scores, threshold, class_cost):
        """(B, C) scores, (B, 1) or (1, 1) thresholds, (C,) costs -> (B,)."""
        member = ops.sigmoid((threshold - scores) / temperature)
        excess = ops.sum(class_cost * member, axis=-1) - allowance
        paid = ops.maximum(excess, 0.0)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            active = upstream * ops.cast(excess > 0.0, upstream.dtype)
            edge = member * (1.0 - member) / temperature
            inward = active[:, None] * class_cost * edge
            d_threshold = ops.sum(inward, axis=-1, keepdims=True)
            if threshold.shape[0] == 1:
                d_threshold = ops.sum(d_threshold, axis=0, keepdims=True)
            d_cost = ops.sum(active[:, None] * member, axis=0)
            return -inward, d_threshold, d_cost

        return paid, grad

    return set_size


def hard_sets(scores, threshold):
    """Boolean membership used at test time."""
    return scores <= threshold


def empirical_coverage(scores, labels, threshold):
    s = ops.convert_to_numpy(true_class_scores(scores, labels))
    return float(np.mean(s <= ops.convert_to_numpy(threshold)))


# ---------------------------------------------------------------------------
# layers
# ---------------------------------------------------------------------------


class ShiftWeights(keras.layers.Layer):
    """Importance weights for covariate shift, exp of a linear score.

    Normalised to a mean of one over the real items of each group.
    """

    def __init__(self, limit=3.0, **kwargs):
        super().__init__(**kwargs)
        self.limit = limit
        self.dense = keras.layers.Dense(1)

    def call(self, features, mask):
        # features [G, N, F], mask [G, N]
        raw = self.limit * ops.tanh(self.dense(features)[..., 0] / self.limit)
        w = ops.exp(raw) * mask
        count = ops.sum(mask, axis=-1, keepdims=True)
        return w * count / (ops.sum(w, axis=-1, keepdims=True) + 1e-9)


class ConformalHead(keras.layers.Layer):
    """Size loss of conformal sets with group-wise thresholds.

    Args:
        classes: number of classes.
        alpha: miscoverage of the sets.
        temperature: softness shared by threshold and set.
        allowance: set size that is free of charge.
    """

    def __init__(
        self,
        classes,
        alpha=DEFAULT_ALPHA,
        temperature=DEFAULT_TEMPERATURE,
        allowance=1.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.classes = classes
        self.alpha = alpha
        self.temperature = temperature
        self.allowance = allowance
        self._threshold = make_calibrated_cutoff(alpha, temperature)
        self._size = make_set_size(temperature, allowance)

    def build(self, input_shape=None):
        self.class_cost = self.add_weight(
            shape=(self.classes,), initializer="ones", trainable=False, name="class_cost"
        )
        self.built = True

    def call(self, batch):
        q = self._threshold(batch.cal_scores, batch.cal_weights)
        own = ops.take(q, batch.test_group, axis=0)[:, None]
        cost = ops.maximum(self.class_cost, 0.0)
        size = self._size(batch.test_scores, own, cost)
        return ops.mean(ops.log(1.0 + size)), q

    def get_config(self):
        config = super().get_config()
        config.update(
            classes=self.classes,
            alpha=self.alpha,
            temperature=self.temperature,
            allowance=self.allowance,
        )
        return config


def smallest_group_for(alpha):
    """Items needed before the uncapped level is no more than one."""
    return math.ceil(1.0 / alpha - 1.0)


def demo(seed=0):
    rng = np.random.default_rng(seed)
    classes, groups = 6, np.array([0] * 60 + [1] * 25 + [2] * 6)
    logits = rng.standard_normal((len(groups), classes)).astype("float32") * 2.0
    labels = np.array([rng.choice(classes, p=np.exp(z) / np.exp(z).sum()) for z in logits])
    scores = aps_free_scores(ops.convert_to_tensor(logits))
    own = true_class_scores(scores, ops.convert_to_tensor(labels.astype("int32")))
    index, mask = pack_groups(logits[:, 0], groups, 3)
    cal = ops.take(own, index, axis=0)
    features = ops.take(ops.convert_to_tensor(logits), index, axis=0)
    weights = ShiftWeights()(features, ops.convert_to_tensor(mask))

    test_logits = rng.standard_normal((12, classes)).astype("float32") * 2.0
    batch = ConformalBatch(
        cal,
        weights,
        aps_free_scores(ops.convert_to_tensor(test_logits)),
        np.arange(12) % 3,
    )
    loss, q = ConformalHead(classes)(batch)
    print("loss", float(loss), "thresholds", ops.convert_to_numpy(q))
    print("items needed", smallest_group_for(DEFAULT_ALPHA))


if __name__ == "__main__":
    demo()
