"""Training objectives for labels that are known of groups of examples only."""
import dataclasses
import math

import tensorflow as tf


def _bag_counts(bag_ids, num_bags, dtype):
    return tf.math.unsorted_segment_sum(tf.ones_like(bag_ids, dtype), bag_ids, num_bags)


@dataclasses.dataclass(frozen=True)
class NoisyAndPool:
    """Noisy-AND pooling: a bag is positive once enough of its instances are.

    With m the mean instance probability of a bag, slope a and thresholds b (one per class),

        p = (sigmoid(a (m - b)) - sigmoid(-a b)) / (sigmoid(a (1 - b)) - sigmoid(-a b)).

    An empty bag has m = 0 and hence p = 0.
    """

    num_bags: int
    slope: float = 10.0

    def __call__(self, probs, thresholds, bag_ids):
        """probs (N, C) in [0, 1], thresholds (C,) in [0, 1], bag_ids (N,) in any order -> (num_bags, C)."""
        a, bags = self.slope, self.num_bags

        @tf.custom_gradient
        def noisy_and(probs, thresholds):
            counts = tf.maximum(_bag_counts(bag_ids, bags, probs.dtype), 1.0)[:, None]
            mean = tf.math.unsorted_segment_sum(probs, bag_ids, bags) / counts
            at_mean = tf.sigmoid(a * (mean - thresholds))
            low = tf.sigmoid(-a * thresholds)
            high = tf.sigmoid(a * (1.0 - thresholds))
            scale = high - low
            pooled = (at_mean - low) / scale

            def grad(upstream):
                slope_mean = a * at_mean * (1.0 - at_mean)
                slope_low = a * low * (1.0 - low)
                slope_high = a * high * (1.0 - high)
                d_mean = upstream * slope_mean / scale
                d_probs = tf.gather(d_mean / counts, bag_ids)
                d_thresholds = (-slope_mean + slope_low + pooled * (slope_high - slope_low)) / scale
                return d_probs, tf.reduce_sum(upstream * d_thresholds, axis=0)

            return pooled, grad

        return noisy_and(probs, thresholds)


def proportion_loss(logits, proportions, bag_ids, eps=1e-7):
    """Label-proportion loss: cross-entropy of the known class shares of a bag and the mean prediction.

    logits (N, C); proportions (B, C), rows sum to one; bag_ids (N,). Bags without examples in the
    batch are left out of the mean.
    """
    num_bags = proportions.shape[0]

    @tf.custom_gradient
    def proportion_ce(logits, proportions):
        probs = tf.nn.softmax(logits, axis=-1)
        counts = _bag_counts(bag_ids, num_bags, logits.dtype)
        present = tf.cast(counts > 0, logits.dtype)
        share = tf.math.divide_no_nan(
            tf.math.unsorted_segment_sum(probs, bag_ids, num_bags), counts[:, None]) + eps
        per_bag = -tf.reduce_sum(proportions * tf.math.log(share), axis=-1)
        loss = tf.reduce_sum(per_bag * present) / tf.maximum(tf.reduce_sum(present), 1.0)

        def grad(upstream):
            g = upstream * present / tf.cast(num_bags, logits.dtype)
            d_share = -g[:, None] * proportions / share
            d_probs = tf.gather(tf.math.divide_no_nan(d_share, counts[:, None]), bag_ids)
            inner = tf.reduce_sum(d_probs * probs, axis=-1, keepdims=True)
            return probs * (d_probs - inner), -g[:, None] * tf.math.log(share)

        return loss, grad

    return proportion_ce(logits, proportions)


def make_critic_bound(clip=None):
    """Donsker-Varadhan bound on mutual information, with the clipped partition of SMILE if `clip` is set."""

    @tf.custom_gradient
    def critic_bound(joint, marginal, keep):
        # joint (K, N), marginal (K, M), keep (K, M) bool with at least one True per row
        t = marginal if clip is None else tf.clip_by_value(marginal, -clip, clip)
        t = tf.where(keep, t, tf.constant(-math.inf, t.dtype))
        kept = tf.reduce_sum(tf.cast(keep, t.dtype), axis=-1)
        bound = tf.reduce_mean(joint, -1) - (tf.reduce_logsumexp(t, -1) - tf.math.log(kept))

        def grad(upstream):
            g = upstream[:, None]
            weights = tf.nn.softmax(t, axis=-1)
            if clip is not None:
                weights = tf.where(tf.abs(marginal) < clip, weights, tf.zeros_like(weights))
            n = tf.cast(tf.shape(joint)[-1], joint.dtype)
            return g * tf.ones_like(joint) / n, -g * weights, None

        return bound, grad

    return critic_bound


class CriticObjective(tf.Module):
    def __init__(self, clip=None, name=None):
        super().__init__(name=name)
        self.bound = make_critic_bound(clip)

    def __call__(self, scores):
        """scores (K, N, N) of K critics on all pairs of a batch: the diagonal is the joint sample."""
        n = scores.shape[-1]
        off = tf.reshape(tf.eye(n) < 0.5, [1, n * n])
        flat = tf.reshape(scores, [-1, n * n])
        return -tf.reduce_mean(self.bound(tf.linalg.diag_part(scores), flat,
                                           tf.broadcast_to(off, tf.shape(flat))))
