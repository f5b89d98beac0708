"""Training pieces of the comment moderation model.

The model scores every comment of a discussion page with one logit ("how much
does a moderator want to look at this?").  Three things around the encoder are
not ordinary cross entropy:

1. Labels are raw votes.  Volunteers differ in strictness and in how sharply
   they separate good from bad, so votes go through a per-rater response curve.
2. A heated parent heats its replies.  Heat is carried down the reply forest.
3. Comments that merely mention an identity must not rank above real attacks,
   which is a pairwise ranking term per identity.

All three have explicit backward passes; the forest is processed one depth at a
time from integer tables prepared by the input pipeline.
"""

from __future__ import annotations

import dataclasses
from typing import Iterable

import numpy as np
import tensorflow as tf

IDENTITIES = ("age", "faith", "gender", "nation", "disability")
DEFAULT_MARGIN = 1.0
DEFAULT_KNEE = 2.5
EMPTY = -1


# --------------------------------------------------------------------------- #
# votes
# --------------------------------------------------------------------------- #


@tf.custom_gradient
def vote_nll(logit, log_sharpness, strictness, votes, seen):
    """Mean negative log-likelihood of the votes cast on each comment.

    ``votes`` and ``seen`` are boolean tables of comments by raters.  A rater
    flags with probability ``sigmoid(exp(log_sharpness) * (logit - strictness))``.
    Comments which nobody has seen cost nothing.
    """
    dtype = logit.dtype
    cast = tf.cast(seen, dtype)
    flagged = tf.cast(votes, dtype)
    sharpness = tf.exp(log_sharpness)
    response = sharpness[None, :] * (logit[:, None] - strictness[None, :])
    cost = tf.nn.softplus(response) - flagged * response
    ballots = tf.reduce_sum(cast, axis=1)
    nll = tf.math.divide_no_nan(tf.reduce_sum(cast * cost, axis=1), ballots)

    def grad(upstream):
        share = tf.math.divide_no_nan(upstream, ballots)
        d_response = share[:, None] * cast * (tf.sigmoid(response) - flagged)
        pull = d_response * sharpness[None, :]
        return (
            tf.reduce_sum(pull, axis=1),
            tf.reduce_sum(d_response * response, axis=0),
            -tf.reduce_sum(pull, axis=0),
            None,
            None,
        )

    return nll, grad


class RaterPool(tf.Module):
    """Response curves of the volunteers."""

    def __init__(self, raters: int, name: str | None = None):
        super().__init__(name=name)
        self.log_sharpness = tf.Variable(tf.zeros([raters]))
        self.strictness = tf.Variable(tf.zeros([raters]))

    def __call__(self, logit, votes, seen):
        return vote_nll(
            logit,
            tf.convert_to_tensor(self.log_sharpness),
            tf.convert_to_tensor(self.strictness),
            votes,
            seen,
        )

    def prior(self, weight: float = 1e-2):
        return weight * (
            tf.reduce_sum(tf.square(self.log_sharpness))
            + tf.reduce_sum(tf.square(self.strictness))
        )


# --------------------------------------------------------------------------- #
# reply forest
# --------------------------------------------------------------------------- #


def depth_levels(parent: np.ndarray) -> list[np.ndarray]:
    """Group comments by depth; a parent precedes its replies in the page."""
    parent = np.asarray(parent)
    depth = np.zeros(parent.shape[0], dtype=np.int32)
    for comment, above in enumerate(parent):
        if above == EMPTY:
            continue
        if above >= comment:
            raise ValueError("comments must be listed in posting order")
        depth[comment] = depth[above] + 1
    return [np.flatnonzero(depth == level).astype(np.int32) for level in range(depth.max() + 1)]


@dataclasses.dataclass(frozen=True)
class ReplyForest:
    """Reply structure of one page.

    Attributes:
      parent: parent of each comment, or EMPTY for a top-level comment.
      topic: topic of each comment; every topic cools at its own rate.
      topics: size of the table of rates.
    """

    parent: np.ndarray
    topic: np.ndarray
    topics: int

    def carry(self, score, carryover):
        """Heat of each comment.

        Args:
          score: own heat, shape [comments].
          carryover: shape [topics], the part of the parent's (squashed) heat
            which reaches a reply written under that topic.

        Returns:
          Tensor of shape [comments].
        """
        return self._make_rule()(score, carryover)

    def _make_rule(self):
        levels = depth_levels(self.parent)
        parent = tf.constant(self.parent, tf.int32)
        topic = tf.constant(self.topic, tf.int32)
        topics = self.topics

        @tf.custom_gradient
        def thread_heat(score, carryover):
            heat = score
            for members in levels[1:]:
                above = tf.gather(parent, members)
                rate = tf.gather(carryover, tf.gather(topic, members))
                passed = rate * tf.tanh(tf.gather(heat, above))
                heat = tf.tensor_scatter_nd_add(heat, members[:, None], passed)

            def grad(upstream):
                d_heat = upstream
                d_rates = tf.zeros_like(carryover)
                for members in reversed(levels[1:]):
                    above = tf.gather(parent, members)
                    kind = tf.gather(topic, members)
                    squashed = tf.tanh(tf.gather(heat, above))
                    pull = tf.gather(d_heat, members)
                    d_rates += tf.math.unsorted_segment_sum(pull * squashed, kind, topics)
                    back = pull * tf.gather(carryover, kind) * (1.0 - tf.square(squashed))
                    d_heat = tf.tensor_scatter_nd_add(d_heat, above[:, None], back)
                return d_heat, d_rates

            return heat, grad

        return thread_heat


# --------------------------------------------------------------------------- #
# identity terms
# --------------------------------------------------------------------------- #


def make_pair_loss(margin: float = DEFAULT_MARGIN, knee: float = DEFAULT_KNEE):
    """Ranking term between attacks and harmless mentions.

    For a pair the slack is ``margin - (attack - mention) / temperature``; a
    positive slack costs ``slack**2 / 2`` up to the knee and grows linearly,
    with the slope reached there, from the knee on, because a handful of
    mislabelled attacks would otherwise own the epoch.

    Args:
      margin: wanted distance.
      knee: slack at which the cost turns linear.

    Returns:
      A function of (attack [groups, n], mention [groups, m],
      temperature [groups], attack_mask [groups, n] bool,
      mention_mask [groups, m] bool) giving the mean cost of the valid pairs of
      each group, zero for a group that has none.
    """

    @tf.custom_gradient
    def pair_cost(attack, mention, temperature, attack_mask, mention_mask):
        dtype = attack.dtype
        valid = tf.cast(
            attack_mask[:, :, None] & mention_mask[:, None, :], dtype
        )
        pairs = tf.reduce_sum(valid, axis=[1, 2])
        distance = attack[:, :, None] - mention[:, None, :]
        scaled = distance / temperature[:, None, None]
        slack = tf.nn.relu(margin - scaled)
        inner = tf.minimum(slack, knee)
        cost = inner * (slack - 0.5 * inner)
        mean = tf.math.divide_no_nan(tf.reduce_sum(valid * cost, axis=[1, 2]), pairs)

        def grad(upstream):
            share = tf.math.divide_no_nan(upstream, pairs)
            d_scaled = -share[:, None, None] * valid * slack
            d_distance = d_scaled / temperature[:, None, None]
            d_attack = tf.reduce_sum(d_distance, axis=2)
            d_mention = -tf.reduce_sum(d_distance, axis=1)
            d_temperature = (
                -tf.reduce_sum(d_scaled * scaled, axis=[1, 2]) / temperature
            )
            return d_attack, d_mention, d_temperature, None, None

        return mean, grad

    return pair_cost


def gather_group(logit, index):
    """Pick the padded comments of each identity; index uses EMPTY for padding."""
    mask = index != EMPTY
    return tf.gather(logit, tf.maximum(index, 0)), mask


class IdentityRanking(tf.keras.layers.Layer):
    """Adds the pairwise terms of all identities to the loss of the page batch."""

    def __init__(self, weight: float = 0.3, margin: float = DEFAULT_MARGIN, **kwargs):
        super().__init__(**kwargs)
        self.weight = weight
        self.rule = make_pair_loss(margin)

    def build(self, _):
        self.log_temperature = self.add_weight(
            name="log_temperature", shape=(len(IDENTITIES),), initializer="zeros"
        )

    def call(self, inputs):
        logit, attack_index, mention_index = inputs
        attack, attack_mask = gather_group(logit, attack_index)
        mention, mention_mask = gather_group(logit, mention_index)
        temperature = tf.exp(tf.convert_to_tensor(self.log_temperature))
        cost = self.rule(attack, mention, temperature, attack_mask, mention_mask)
        # the worst identities count most
        return self.weight * tf.reduce_logsumexp(4.0 * cost) / 4.0


def bucket_lengths(lengths: Iterable[int], edges: Iterable[int]) -> np.ndarray:
    """Bucket index of each comment for the batching of the input pipeline."""
    return np.searchsorted(np.asarray(list(edges)), np.asarray(list(lengths)), side="right")


def moderation_queue(heat, capacity: int):
    """Indices of the comments that today's moderators will see."""
    return tf.math.top_k(heat, k=min(capacity, heat.shape[0])).indices


def page_loss(pool: RaterPool, ranking: IdentityRanking, forest: ReplyForest, batch, carryover):
    heat = forest.carry(batch["score"], carryover)
    votes = pool(heat, batch["votes"], batch["seen"])
    fair = ranking((heat, batch["attack"], batch["mention"]))
    return tf.reduce_mean(votes) + fair + pool.prior()


def main() -> None:
    rng = np.random.default_rng(11)
    comments, raters, groups = 18, 6, len(IDENTITIES)
    parent = np.array([EMPTY] + [int(rng.integers(-1, i)) for i in range(1, comments)])
    forest = ReplyForest(parent, rng.integers(0, 3, comments), 3)
    batch = {
        "score": tf.constant(rng.normal(0.0, 2.0, comments), tf.float32),
        "votes": tf.constant(rng.random((comments, raters)) < 0.4),
        "seen": tf.constant(rng.random((comments, raters)) < 0.6),
        "attack": tf.constant(rng.integers(-1, comments, (groups, 5)), tf.int32),
        "mention": tf.constant(rng.integers(-1, comments, (groups, 7)), tf.int32),
    }
    pool, ranking = RaterPool(raters), IdentityRanking()
    ranking.build(None)
    carryover = tf.Variable([0.5, 0.3, 0.8])
    with tf.GradientTape() as tape:
        loss = page_loss(pool, ranking, forest, batch, tf.convert_to_tensor(carryover))
    grads = tape.gradient(loss, [carryover, pool.strictness, pool.log_sharpness])
    print("loss", float(loss))
    for value in grads:
        print(np.round(value.numpy(), 4))


if __name__ == "__main__":
    main()
