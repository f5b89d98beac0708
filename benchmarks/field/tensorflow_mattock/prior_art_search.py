"""Prior-art retrieval for patent claims.

A claim is split into elements ("a housing", "a valve coupled to the
housing", ...).  An examiner's question is whether a document *anticipates* the
claim: every element has to be shown somewhere in it.  The reranker therefore
scores a document by a noisy-or over passages inside of each element and a
weighted mean of log coverages across elements.  The retriever beneath is trained
with a margin between members of the cited patent families and all others.

Everything is backend-agnostic Keras 3.
"""

from dataclasses import dataclass

import numpy as np
import keras
from keras import ops

COVER_FLOOR = 1e-6
NOT_IN_PLAY = -1e30
DEFAULT_MARGIN = 0.2


@dataclass
class ClaimBatch:
    """Padded arrays of one reranking step.

    similarity   (claims, elements, passages) raw scores of the cross encoder
    element_ok   (claims, elements) bool
    passage_ok   (claims, passages) bool
    """

    similarity: np.ndarray
    element_ok: np.ndarray
    passage_ok: np.ndarray

    @classmethod
    def pad(cls, matrices):
        """Stack ragged (elements, passages) matrices."""
        tall = max(m.shape[0] for m in matrices)
        wide = max(m.shape[1] for m in matrices)
        sim = np.zeros((len(matrices), tall, wide), "float32")
        rows = np.zeros((len(matrices), tall), bool)
        cols = np.zeros((len(matrices), wide), bool)
        for i, m in enumerate(matrices):
            sim[i, : m.shape[0], : m.shape[1]] = m
            rows[i, : m.shape[0]] = True
            cols[i, : m.shape[1]] = True
        return cls(sim, rows, cols)


def _mask(flags, like):
    return ops.cast(ops.convert_to_tensor(flags), like.dtype)


def make_claim_coverage(element_ok, passage_ok, floor=COVER_FLOOR):
    """Build the anticipation score for a padded batch.

    Parameters
    ----------
    element_ok, passage_ok
        Boolean masks, see `ClaimBatch`.  A claim without any element scores 0.
    floor
        Added to each coverage ahead of the logarithm.

    Returns
    -------
    callable
        ``(similarity, importance) -> (claims,)``
    """

    @ops.custom_gradient
    def claim_coverage(similarity, importance):
        rows = _mask(element_ok, similarity)
        cols = _mask(passage_ok, similarity)[:, None, :]
        missed = ops.sum(cols * ops.softplus(similarity), axis=-1)
        uncovered = ops.exp(-missed)
        covered = -ops.expm1(-missed) + floor
        logs = ops.log(covered)

        weight = rows * importance
        mass = ops.sum(weight, axis=-1, keepdims=True)
        safe = ops.where(mass > 0, mass, ops.ones_like(mass))
        score = ops.sum(weight * logs, axis=-1, keepdims=True) / safe

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            share = upstream[:, None] * rows / safe
            pull = share * importance * uncovered / covered
            d_similarity = pull[..., None] * cols * ops.sigmoid(similarity)
            d_importance = share * (logs - score)
            return d_similarity, d_importance

        return score[:, 0], grad

    return claim_coverage


class AnticipationScorer(keras.layers.Layer):
    """Scales the encoder's scores and learns how much an element's kind matters."""

    def __init__(self, kinds=6, **kwargs):
        super().__init__(**kwargs)
        self.kinds = kinds

    def build(self, input_shape=None):
        self.kind_weight = self.add_weight(
            shape=(self.kinds,), initializer="zeros", name="kind_weight"
        )
        self.gain = self.add_weight(shape=(), initializer="ones", name="gain")

    def call(self, similarity, kind, element_ok, passage_ok):
        per_kind = ops.softplus(ops.convert_to_tensor(self.kind_weight))
        importance = ops.take(per_kind, kind, axis=0)
        coverage = make_claim_coverage(element_ok, passage_ok)
        return coverage(similarity * self.gain, importance)


# ---------------------------------------------------------------------------
# Retriever
# ---------------------------------------------------------------------------


def family_masks(query_families, cited_families, pool_families):
    """Which pool entries count for and against each query.

    A pool document counts for the query when its family is cited by it; the
    query's own family is out of play altogether.
    """
    pool = np.asarray(pool_families)
    wanted = np.zeros((len(query_families), len(pool)), bool)
    for i, cited in enumerate(cited_families):
        wanted[i] = np.isin(pool, list(cited))
    own = np.asarray(query_families)[:, None] == pool[None, :]
    return wanted & ~own, ~wanted & ~own


class FamilyMargin(keras.losses.Loss):
    """Soft margin between cited families and everything else in the pool.

    Queries whose cited families are all missing from the pool say nothing and
    do not enter the mean.

    Args:
        temperature: softness of the maximum over the others.
        width: softness of the hinge.
    """

    def __init__(self, temperature=0.1, width=0.25, name="family_margin"):
        super().__init__(reduction=None, name=name)
        self.temperature = temperature
        self.width = width

    def loss(self, scores, margin, wanted, others):
        """scores: (queries, pool); margin: (queries,) -> scalar."""
        temperature, width = self.temperature, self.width

        @ops.custom_gradient
        def cited_gap(scores, margin):
            hits = _mask(wanted, scores)
            rest = _mask(others, scores)
            n_hits = ops.sum(hits, axis=1)
            n_rest = ops.sum(rest, axis=1)
            counts = ops.cast(ops.logical_and(n_hits > 0, n_rest > 0), scores.dtype)
            queries = ops.maximum(ops.sum(counts), 1.0)

            mean_hit = ops.sum(hits * scores, axis=1) / ops.maximum(n_hits, 1.0)
            blocked = ops.where(rest > 0, scores, NOT_IN_PLAY * ops.ones_like(scores))
            peak = ops.max(blocked, axis=1, keepdims=True)
            lifted = rest * ops.exp(ops.minimum((scores - peak) / temperature, 0.0))
            z = ops.maximum(ops.sum(lifted, axis=1, keepdims=True), 1e-30)
            top = ops.where(n_rest > 0, (peak + temperature * ops.log(z))[:, 0], ops.zeros_like(n_rest))
            gap = (margin + top - mean_hit) / width
            loss = ops.sum(counts * width * ops.softplus(gap)) / queries

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                each = upstream / scores.shape[0]
                active = each * counts * ops.sigmoid(gap)
                toward = hits / ops.maximum(n_hits, 1.0)[:, None]
                d_scores = active[:, None] * (lifted / z - toward)
                return d_scores, active

            return loss, grad

        return cited_gap(scores, margin)

    def call(self, masks, scores):
        wanted, others = masks
        margin = ops.full((scores.shape[0],), DEFAULT_MARGIN, dtype=scores.dtype)
        return self.loss(scores, margin, wanted, others)


class TwoTower(keras.Model):
    """Claim tower and document tower over precomputed sentence vectors."""

    def __init__(self, dim=32, **kwargs):
        super().__init__(**kwargs)
        self.claim_tower = keras.layers.Dense(dim)
        self.document_tower = keras.layers.Dense(dim)

    def call(self, claims, documents):
        left = ops.normalize(self.claim_tower(claims), axis=-1)
        right = ops.normalize(self.document_tower(documents), axis=-1)
        return ops.matmul(left, ops.transpose(right))


def technology_margin(classes, base=DEFAULT_MARGIN, step=0.05):
    """Margin grows with the breadth of the claim's classification symbols."""
    return np.asarray([base + step * max(len(c) - 1, 0) for c in classes], "float32")


def recall_at(scores, wanted, k=10):
    """Share of queries with a cited family among the first k."""
    order = np.argsort(-ops.convert_to_numpy(scores), axis=1)[:, :k]
    found = np.take_along_axis(wanted, order, axis=1).any(axis=1)
    answerable = wanted.any(axis=1)
    return float(found[answerable].mean()) if answerable.any() else 0.0


def main():
    rng = np.random.default_rng(5)
    batch = ClaimBatch.pad([rng.normal(size=s) for s in ((3, 5), (2, 7), (4, 4))])
    kind = rng.integers(0, 6, batch.element_ok.shape)
    scorer = AnticipationScorer()
    scorer.build()
    print(
        "anticipation:",
        ops.convert_to_numpy(
            scorer(
                ops.convert_to_tensor(batch.similarity), kind, batch.element_ok, batch.passage_ok
            )
        ),
    )

    towers = TwoTower()
    claims = rng.normal(size=(4, 20)).astype("float32")
    documents = rng.normal(size=(9, 20)).astype("float32")
    wanted, others = family_masks(
        [100, 101, 102, 103],
        [{1, 2}, {3}, {77}, {5}],
        [1, 2, 3, 4, 5, 6, 7, 101, 8],
    )
    scores = towers(claims, documents)
    margin = technology_margin([["A61K"], ["F16K", "F16L"], ["G06F"], ["H04N", "H04L", "G06T"]])
    value = FamilyMargin().loss(scores, ops.convert_to_tensor(margin), wanted, others)
    print("margin loss:", float(value), "recall@3:", recall_at(scores, wanted, 3))


if __name__ == "__main__":
    main()
