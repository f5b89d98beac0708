"""Soil buckets and community summaries used by the restoration model."""

import math

import tensorflow as tf


@tf.custom_gradient
def bucket_overflow(inflow, capacity, retention, initial):
    """Run leaky soil buckets that spill what they cannot hold.

        pre_t     = retention * storage_{t-1} + inflow_t
        storage_t = clip(pre_t, 0, capacity)
        spill_t   = max(pre_t - capacity, 0)

    The backward pass walks the series once and keeps only the storages.

    Args:
      inflow: [cells, time] net inflow. Negative in dry spells, the bucket then
        simply runs empty.
      capacity: [cells] positive capacities.
      retention: [cells] fraction kept from one step to the next, in (0, 1].
      initial: [cells] storages at the start.

    Returns:
      A pair (storage, spill), each [cells, time].
    """
    steps = inflow.shape[1]
    state = initial
    before, storages, spills, full, live = [], [], [], [], []
    for t in range(steps):
        pre = retention * state + inflow[:, t]
        before.append(state)
        state = tf.clip_by_value(pre, tf.zeros_like(capacity), capacity)
        storages.append(state)
        spills.append(tf.nn.relu(pre - capacity))
        full.append(pre > capacity)
        live.append((pre >= 0) & (pre <= capacity))

    def grad(d_storage, d_spill):
        carry = tf.zeros_like(initial)
        d_capacity = tf.zeros_like(capacity)
        d_retention = tf.zeros_like(retention)
        d_inflow = [None] * steps
        for t in reversed(range(steps)):
            d_state = d_storage[:, t] + carry
            zero = tf.zeros_like(d_state)
            d_capacity += tf.where(full[t], d_state, zero)
            d_pre = tf.where(live[t], d_state, zero) + tf.where(full[t], d_spill[:, t], zero)
            d_inflow[t] = d_pre
            d_retention += d_pre * before[t]
            carry = d_pre * retention
        return tf.stack(d_inflow, axis=1), d_capacity, d_retention, carry

    return (tf.stack(storages, axis=1), tf.stack(spills, axis=1)), grad


def hill_number(abundance, q=2.0):
    """Effective number of species of order `q`.

    Parameters
    ----------
    abundance : tf.Tensor, shape (..., species)
        Positive abundances; they need not sum to one.
    q : float, default 2.0
        Order, q >= 0. 0 is species richness, 1 the exponential of the Shannon
        entropy (the limit), 2 the inverse Simpson index. Larger orders give
        more weight to common species.

    Returns
    -------
    tf.Tensor, shape (...,)

    References
    ----------
    Hill, M. O. (1973). Diversity and evenness: a unifying notation and its
    consequences. Ecology 54, 427-432.
    """
    q = float(q)
    if q < 0.0:
        raise ValueError("the order of a Hill number is not negative")

    @tf.custom_gradient
    def diversity(n):
        total = tf.reduce_sum(n, axis=-1, keepdims=True)
        p = n / total
        log_p = tf.math.log(p)
        if math.isclose(q, 1.0):
            value = tf.exp(-tf.reduce_sum(p * log_p, axis=-1, keepdims=True))
        else:
            basic = tf.reduce_sum(tf.exp(q * log_p), axis=-1, keepdims=True)
            value = basic ** (1.0 / (1.0 - q))

        def grad(dy):
            dy = dy[..., None]
            if math.isclose(q, 1.0):
                return -dy * value * (1.0 + log_p) / total
            d_p = dy * value * q / (1.0 - q) * tf.exp((q - 1.0) * log_p) / basic
            return (d_p - tf.reduce_sum(d_p * p, axis=-1, keepdims=True)) / total

        return tf.squeeze(value, axis=-1), grad

    return diversity(abundance)


class DiversityHead(tf.keras.layers.Layer):
    """Hill profile (several orders) of predicted abundances."""

    def __init__(self, orders=(0.0, 2.0), floor=1e-4, **kwargs):
        super().__init__(**kwargs)
        self.orders = tuple(orders)
        self.floor = floor

    def call(self, logits):
        abundance = tf.nn.softplus(logits) + self.floor
        return tf.stack([hill_number(abundance, q) for q in self.orders], axis=-1)
