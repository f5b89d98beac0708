from __future__ import annotations

import dataclasses
from typing import Callable, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

Tensor = tf.Tensor
GradFn = Callable[..., Sequence[Optional[Tensor]]]

COMBINERS = ("sum", "mean", "sqrtn")


@dataclasses.dataclass(frozen=True)
class TowerConfig:
    num_items: int
    dim: int = 32
    combiner: str = "mean"
    init_temperature: float = 0.1


def embedding_bag(
    table: Tensor,          # [num_items, dim]
    ids: Tensor,            # [nnz] int, rows of the table, may repeat
    bag_ids: Tensor,        # [nnz] int, the bag of each id
    weights: Optional[Tensor] = None,   # [nnz] positive
    *,
    num_bags: int,
    combiner: str = "sum",
) -> Tensor:                # [num_bags, dim]
    """Like tf.nn.embedding_lookup_sparse, trainable in the table *and* the weights.

    sum: sum_i w_i e_i;  mean: divided by sum_i w_i;  sqrtn: by sqrt(sum_i w_i^2).
    Empty bags give zeros.
    """
    if combiner not in COMBINERS:
        raise ValueError(f"combiner must be one of {COMBINERS}, got {combiner!r}")
    if weights is None:
        weights = tf.ones(tf.shape(ids), table.dtype)

    @tf.custom_gradient
    def _bag(table: Tensor, weights: Tensor) -> Tuple[Tensor, GradFn]:
        rows = tf.gather(table, ids)
        pooled = tf.math.unsorted_segment_sum(rows * weights[:, None], bag_ids, num_bags)
        if combiner == "mean":
            norm = tf.math.unsorted_segment_sum(weights, bag_ids, num_bags)
        elif combiner == "sqrtn":
            norm = tf.sqrt(tf.math.unsorted_segment_sum(weights**2, bag_ids, num_bags))
        else:
            norm = tf.ones([num_bags], table.dtype)
        pooled = tf.math.divide_no_nan(pooled, norm[:, None])

        def grad(dy: Tensor) -> Tuple[Tensor, Tensor]:
            scaled = tf.math.divide_no_nan(dy, norm[:, None])
            per_id = tf.gather(scaled, bag_ids)
            d_table = tf.math.unsorted_segment_sum(
                per_id * weights[:, None], ids, table.shape[0])
            d_weights = tf.reduce_sum(per_id * rows, axis=-1)
            if combiner == "sqrtn":
                pull = tf.reduce_sum(scaled * pooled, axis=-1)
                pull = tf.math.divide_no_nan(pull, norm)
                d_weights -= tf.gather(pull, bag_ids) * weights
            return d_table, d_weights

        return pooled, grad

    return _bag(table, weights)


@tf.custom_gradient
def segment_softmax(scores: Tensor, segment_ids: Tensor, num_segments: int):
    # scores [E, heads]; normalized over the edges that share a segment id
    top = tf.math.unsorted_segment_max(scores, segment_ids, num_segments)
    e = tf.exp(scores - tf.gather(top, segment_ids))
    z = tf.math.unsorted_segment_sum(e, segment_ids, num_segments)
    alpha = e / tf.gather(z, segment_ids)

    def grad(dy: Tensor):
        dot = tf.math.unsorted_segment_sum(alpha * dy, segment_ids, num_segments)
        return alpha * (dy - tf.gather(dot, segment_ids)), None, None

    return alpha, grad


class LightGCNConv(tf.Module):
    def __init__(self, num_layers: int = 3, name: Optional[str] = None) -> None:
        super().__init__(name=name)
        self.num_layers = num_layers

    @staticmethod
    @tf.custom_gradient
    def _propagate(x: Tensor, edge_weight: Tensor, src: Tensor, dst: Tensor):
        # messages flow src -> dst:  out[dst] += edge_weight * x[src]
        num_nodes = tf.shape(x)[0]
        out = tf.math.unsorted_segment_sum(
            edge_weight[:, None] * tf.gather(x, src), dst, num_nodes)

        def grad(dy: Tensor):
            dx = tf.math.unsorted_segment_sum(
                edge_weight[:, None] * tf.gather(dy, src), dst, num_nodes)
            dw = tf.reduce_sum(tf.gather(dy, dst) * tf.gather(x, src), axis=-1)
            return dx, dw, None, None

        return out, grad

    def __call__(self, x: Tensor, edge_weight: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        layers = [x]
        for _ in range(self.num_layers):
            layers.append(self._propagate(layers[-1], edge_weight, src, dst))
        return tf.add_n(layers) / float(len(layers))


class AttentiveConv(tf.Module):
    """GAT-style aggregation with one score per edge and head."""

    def __call__(self, x: Tensor, scores: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        n = x.shape[0]
        alpha = segment_softmax(scores, dst, n)                     # [E, heads]
        msg = alpha[..., None] * tf.gather(x, src)[:, None, :]      # [E, heads, dim]
        return tf.math.unsorted_segment_sum(msg, dst, n)


@tf.custom_gradient
def bpr_loss(pos: Tensor, neg: Tensor, weights: Tensor):
    # pos [B], neg [B, N], weights [B] -> weighted mean over users of mean_n softplus(neg - pos)
    margin = neg - pos[:, None]
    per_user = tf.reduce_mean(tf.nn.softplus(margin), axis=1)
    total = tf.reduce_sum(weights)
    loss = tf.reduce_sum(per_user * weights) / total

    def grad(dy: Tensor):
        n = tf.cast(tf.shape(neg)[1], neg.dtype)
        d_margin = dy * tf.sigmoid(margin) * (weights / total)[:, None] / n
        d_weights = dy * (per_user - loss) / total
        return -tf.reduce_sum(d_margin, axis=1), d_margin, d_weights

    return loss, grad


class InBatchSoftmax(tf.Module):
    """Two-tower retrieval loss, negatives are the other items of the batch.

    log_q [B] is the log sampling probability of each item (Yi et al. 2019).
    """

    def __init__(self, init_temperature: float = 0.1, dtype: tf.DType = tf.float32,
                 name: Optional[str] = None) -> None:
        super().__init__(name=name)
        self.log_temperature = tf.Variable(np.log(init_temperature), dtype=dtype,
                                           name="log_temperature")

    def __call__(self, users: Tensor, items: Tensor, log_q: Optional[Tensor] = None) -> Tensor:
        if log_q is None:
            log_q = tf.zeros([items.shape[0]], items.dtype)

        @tf.custom_gradient
        def _loss(users: Tensor, items: Tensor):
            inv_t = tf.exp(-self.log_temperature)
            logits = tf.matmul(users, items, transpose_b=True) * inv_t - log_q[None, :]
            log_p = tf.nn.log_softmax(logits)
            loss = -tf.linalg.diag_part(log_p)             # [B], one per user

            def grad(dy: Tensor, variables=None):
                d_logits = (tf.exp(log_p) - tf.eye(logits.shape[0], dtype=logits.dtype))
                d_logits *= dy[:, None]
                d_users = tf.matmul(d_logits, items) * inv_t
                d_items = tf.matmul(d_logits, users, transpose_a=True) * inv_t
                d_log_t = -tf.reduce_sum(d_logits * logits)
                return (d_users, d_items), [d_log_t]

            return loss, grad

        return _loss(users, items)


def train_step(cfg: TowerConfig, table: tf.Variable, loss: InBatchSoftmax,
               history: Tensor, bags: Tensor, recency: Tensor, targets: Tensor,
               counts: np.ndarray, lr: float = 0.05) -> float:
    log_q = tf.math.log(tf.cast(tf.gather(counts / counts.sum(), targets), table.dtype))
    with tf.GradientTape() as tape:
        users = embedding_bag(tf.convert_to_tensor(table), history, bags, recency,
                              num_bags=targets.shape[0], combiner=cfg.combiner)
        items = tf.gather(table, targets)
        value = tf.reduce_mean(loss(users, items, log_q))
    variables = [table, loss.log_temperature]
    for v, g in zip(variables, tape.gradient(value, variables)):
        v.assign_sub(lr * tf.convert_to_tensor(g))
    return float(value)
