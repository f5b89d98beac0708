"""Which dish will a regular of a works canteen take next?

Every dish carries a handful of ingredients (padded with -1), every guest has a history of dishes, and the planner scores the whole
cookbook for the next lunch.  The pieces below have hand-written gradients because the autodiff versions kept several
[batch, history, dim] temporaries alive and the training box is old.

Shapes:  B guests (or dishes), L ingredients / history length, T lunches, V size of the ingredient list or the cookbook.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple, Optional

import tensorflow as tf

PAD = -1
COMBINERS = ("sum", "mean", "sqrtn")


class PlannerConfig(NamedTuple):
    ingredient_count: int = 400
    dim: int = 32
    combiner: str = "sqrtn"
    score_cap: Optional[float] = 30.0


@functools.lru_cache(maxsize=None)
def ingredient_pooler(combiner: str = "mean"):
    """Return ``pool(table, ids, grams) -> [B, D]`` for one combiner.

    Args:
      combiner: "sum", "mean" (divide by the summed grams) or "sqrtn" (divide by the root of the summed squared grams), as
        in tf.nn.embedding_lookup_sparse.

    An ingredient may be listed twice in a dish, PAD entries count for nothing, and a dish without ingredients gets the zero vector.
    """
    if combiner not in COMBINERS:
        raise ValueError(f"unknown combiner {combiner!r}")

    @tf.custom_gradient
    def pool(table, ids, grams):
        present = tf.cast(ids != PAD, table.dtype)
        safe = tf.where(ids == PAD, tf.zeros_like(ids), ids)
        rows = tf.gather(table, safe)                                  # B L D
        w = grams * present
        if combiner == "sum":
            inv = tf.ones_like(w[:, :1])
        elif combiner == "mean":
            inv = tf.math.reciprocal_no_nan(tf.reduce_sum(w, 1, keepdims=True))
        else:
            inv = tf.math.reciprocal_no_nan(tf.norm(w, axis=1, keepdims=True))
        out = tf.einsum("bl,bld->bd", w, rows) * inv

        def grad(up):
            per_row = (w * inv)[:, :, None] * up[:, None, :]
            d_table = tf.math.unsorted_segment_sum(
                tf.reshape(per_row, [-1, tf.shape(table)[1]]), tf.reshape(safe, [-1]), tf.shape(table)[0])
            along = tf.einsum("bd,bld->bl", up, rows)
            level = tf.reduce_sum(up * out, 1, keepdims=True)
            if combiner == "sum":
                d_w = along
            elif combiner == "mean":
                d_w = (along - level) * inv
            else:
                d_w = along * inv - level * w * inv * inv
            return d_table, None, d_w * present

        return out, grad

    return pool


@tf.custom_gradient
def boredom(servings, after_holiday, decay, carry):
    """How bored a guest is of a dish family, lunch after lunch.

        boredom[b, t] = servings[b, t] + decay[b] * boredom[b, t - 1]

    On the first lunch after a holiday (``after_holiday[b, t]`` true) everything from before is forgotten.

    Args:
      servings: [B, T].
      after_holiday: bool [B, T].
      decay: [B], between 0 and 1.
      carry: [B], the boredom before the first lunch.

    Returns:
      [B, T]
    """
    keep = tf.cast(tf.logical_not(after_holiday), servings.dtype)
    steps = servings.shape[1]
    level, levels = carry, []
    for t in range(steps):
        level = servings[:, t] + keep[:, t] * decay * level
        levels.append(level)

    def grad(up):
        lam = tf.zeros_like(carry)
        d_decay = tf.zeros_like(decay)
        d_servings = [None] * steps
        for t in reversed(range(steps)):
            lam = up[:, t] + decay * keep[:, t] * lam
            d_servings[t] = lam
            before = levels[t - 1] if t > 0 else carry
            d_decay += keep[:, t] * before * lam
        d_carry = keep[:, 0] * decay * lam
        return tf.stack(d_servings, 1), None, d_decay, d_carry

    return tf.stack(levels, 1), grad


def make_appetite_lookback(cap: Optional[float] = None):
    """Attention of today's appetite over the history; ``cap`` squashes the scores to (-cap, cap) by a tanh."""

    @tf.custom_gradient
    def lookback(appetite, keys, values, eaten):
        # appetite [B, D], keys [B, L, D], values [B, L, E], eaten bool [B, L]; new guests (nothing eaten) read zeros
        # -> what is read [B, E] and the weights [B, L]
        scale = 1.0 / math.sqrt(appetite.shape[-1])
        raw = tf.einsum("bd,bld->bl", appetite, keys) * scale
        s = raw if cap is None else cap * tf.tanh(raw / cap)
        top = tf.reduce_max(tf.where(eaten, s, s.dtype.min), 1, keepdims=True)
        e = tf.where(eaten, tf.exp(tf.where(eaten, s - top, 0.0)), 0.0)
        w = tf.math.divide_no_nan(e, tf.reduce_sum(e, 1, keepdims=True))
        read = tf.einsum("bl,ble->be", w, values)

        def grad(up_read, up_w):
            g = up_w + tf.einsum("be,ble->bl", up_read, values)
            g = w * (g - tf.reduce_sum(w * g, 1, keepdims=True))
            if cap is not None:
                g = g * (1.0 - tf.square(s / cap))
            g = g * scale
            return (tf.einsum("bl,bld->bd", g, keys), g[:, :, None] * appetite[:, None, :],
                    w[:, :, None] * up_read[:, None, :], None)

        return (read, w), grad

    return lookback


@tf.custom_gradient
def next_dish_nll(logits, dish, temperature):
    """Mean negative log likelihood of the dish that was taken, at a learnt temperature per guest.

    logits [B, V], dish int [B] (PAD where the guest stayed away: no term), temperature [B], positive.
    """
    known = tf.cast(dish != PAD, logits.dtype)
    n = tf.maximum(tf.reduce_sum(known), 1.0)
    label = tf.one_hot(dish, tf.shape(logits)[1], dtype=logits.dtype)
    scaled = logits / temperature[:, None]
    logp = tf.nn.log_softmax(scaled)
    loss = -tf.reduce_sum(known[:, None] * label * logp) / n

    def grad(up):
        residual = (tf.exp(logp) - label) * (known / n)[:, None] * up
        d_logits = residual / temperature[:, None]
        d_temperature = -tf.reduce_sum(d_logits * logits, axis=1)
        return d_logits, None, d_temperature

    return loss, grad


class MenuPlanner(tf.keras.layers.Layer):
    def __init__(self, config: PlannerConfig = PlannerConfig(), **kw):
        super().__init__(**kw)
        self.config = config
        self.pool = ingredient_pooler(config.combiner)
        self.lookback = make_appetite_lookback(config.score_cap)

    def build(self, _):
        self.table = self.add_weight(shape=(self.config.ingredient_count, self.config.dim), name="ingredients")

    def call(self, batch):
        dishes = self.pool(tf.convert_to_tensor(self.table), batch["ingredients"], batch["grams"])
        history = tf.gather(dishes, batch["history"])
        read, _ = self.lookback(batch["appetite"], history, history, batch["eaten"])
        return tf.matmul(read, dishes, transpose_b=True)
