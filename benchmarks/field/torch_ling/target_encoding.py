"""Target encodings and shared embeddings for high-cardinality categories.

Building blocks of a tabular pipeline in which the encoders are trained with
the rest of the network instead of being fitted beforehand.  Labels are often
the soft labels of a teacher, or sample weights come out of a reweighting
network, so the encoders are differentiated with respect to labels and weights
as well as with respect to their own smoothing.

Category codes are integers; -1 stands for "not seen / missing".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

DEFAULT_SMOOTHING = 8.0
DEFAULT_MIN_COUNT = 5


@dataclass
class Vocabulary:
    """Codes of one categorical column with the counts of the training split."""

    index: Dict[str, int]
    counts: Tensor

    @classmethod
    def fit(cls, values: Sequence[Optional[str]]) -> "Vocabulary":
        index: Dict[str, int] = {}
        counts: List[int] = []
        for value in values:
            if value is None:
                continue
            code = index.setdefault(value, len(index))
            if code == len(counts):
                counts.append(0)
            counts[code] += 1
        return cls(index, torch.tensor(counts, dtype=torch.long))

    def __len__(self) -> int:
        return len(self.index)

    def encode(self, values: Sequence[Optional[str]]) -> Tensor:
        return torch.tensor([-1 if v is None else self.index.get(v, -1) for v in values])


def _by_category(rows: Tensor, codes: Tensor, n: int) -> Tensor:
    """Sum rows of the same (non-negative) code into a table of ``n`` rows."""
    return rows.new_zeros(n, *rows.shape[1:]).index_add_(0, codes, rows)


class LeaveOneOutMean(Function):
    """Smoothed mean target of the *other* rows of the same category.

    For row i of category c

        enc_i = (sum_{j in c, j != i} w_j y_j + m * prior)
                / (sum_{j in c, j != i} w_j + m)

    where ``prior`` is the weighted mean target of the whole batch and ``m`` the
    smoothing.  A missing category is encoded by the prior.

    Parameters
    ----------
    targets : Tensor
        (rows, tasks).
    weights : Tensor
        (rows,), positive.
    smoothing : Tensor
        Positive scalar ``m``.
    codes : LongTensor
        (rows,), -1 where missing.
    n_categories : int

    Returns
    -------
    Tensor
        (rows, tasks).
    """

    @staticmethod
    def forward(ctx, targets, weights, smoothing, codes, n_categories):
        known = codes >= 0
        slot = codes.clamp_min(0)
        w_known = weights * known
        own = w_known[:, None] * targets

        total = weights.sum()
        prior = (weights[:, None] * targets).sum(0) / total
        sums = _by_category(own, slot, n_categories)[slot]
        mass = _by_category(w_known, slot, n_categories)[slot]

        keep = known.to(targets.dtype)
        numer = keep[:, None] * (sums - own) + smoothing * prior
        denom = keep * (mass - w_known) + smoothing
        encoded = numer / denom[:, None]
        ctx.save_for_backward(targets, weights, smoothing, slot, keep, prior, denom, encoded)
        ctx.n_categories = n_categories
        return encoded

    @staticmethod
    def backward(ctx, grad):
        targets, weights, smoothing, slot, keep, prior, denom, encoded = ctx.saved_tensors
        g_numer = grad / denom[:, None]
        g_denom = -(g_numer * encoded).sum(1)
        g_prior = smoothing * g_numer.sum(0)
        g_smoothing = (g_numer * prior).sum() + g_denom.sum()

        # each row is seen by the others of its category, not by itself
        out_numer = g_numer * keep[:, None]
        out_denom = g_denom * keep
        seen_numer = _by_category(out_numer, slot, ctx.n_categories)[slot] - out_numer
        seen_denom = _by_category(out_denom, slot, ctx.n_categories)[slot] - out_denom
        seen_numer = seen_numer * keep[:, None]
        seen_denom = seen_denom * keep

        total = weights.sum()
        g_targets = weights[:, None] * (seen_numer + g_prior / total)
        g_weights = (
            (targets * seen_numer).sum(1)
            + seen_denom
            + ((targets - prior) * g_prior).sum(1) / total
        )
        return g_targets, g_weights, g_smoothing.view_as(smoothing), None, None


class RareBucketPool(Function):
    """Embedding lookup in which infrequent categories share one vector.

    Categories counted fewer than ``min_count`` times in the training split are
    represented by the count-weighted mean of their embeddings.  Missing codes
    (-1) give zeros.

    table: (categories, dim); counts: (categories,) long; codes: (rows,) long.
    Returns (rows, dim).
    """

    @staticmethod
    def forward(table, counts, codes, min_count=DEFAULT_MIN_COUNT):
        rare = counts < min_count
        share = torch.where(rare, counts, torch.zeros_like(counts)).to(table.dtype)
        pooled = (share / share.sum().clamp_min(1.0)) @ table
        effective = torch.where(rare[:, None], pooled, table)
        rows = effective[codes.clamp_min(0)]
        return rows * (codes >= 0)[:, None]

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, counts, codes, min_count = inputs
        ctx.min_count = min_count
        ctx.save_for_backward(counts, codes)

    @staticmethod
    def backward(ctx, grad):
        counts, codes = ctx.saved_tensors
        grad = grad * (codes >= 0)[:, None]
        g_rows = _by_category(grad, codes.clamp_min(0), counts.shape[0])

        rare = counts < ctx.min_count
        member = (rare & (counts > 0)).to(grad.dtype)
        g_pooled = g_rows[rare].sum(0)
        share = member / member.sum().clamp_min(1.0)
        g_table = torch.where(rare[:, None], share[:, None] * g_pooled, g_rows)
        return g_table, None, None, None


def _shares(counts: Tensor, alpha: float) -> Tensor:
    """Smoothed distribution of the counts over the bins."""
    return (counts + alpha) / (counts.sum() + alpha * counts.shape[0])


class WeightOfEvidence(Function):
    """Weight of evidence of each bin, and the information value of a feature.

    Args:
        labels: soft labels in [0, 1], one per row.
        weights: positive sample weights, one per row.
        bins: long, the bin of each row.
        n_bins: number of bins.
        alpha: pseudo-count added to both classes in every bin. The default
            needs every bin to hold both classes.

    Returns:
        woe of shape (n_bins,) and the scalar information value.
    """

    @staticmethod
    def forward(ctx, labels, weights, bins, n_bins, alpha=0.0):
        pos = _by_category(weights * labels, bins, n_bins)
        neg = _by_category(weights * (1.0 - labels), bins, n_bins)
        pos_share, neg_share = _shares(pos, alpha), _shares(neg, alpha)
        woe = torch.log(pos_share) - torch.log(neg_share)
        value = ((pos_share - neg_share) * woe).sum()
        ctx.save_for_backward(labels, weights, bins, pos, neg, pos_share, neg_share, woe)
        ctx.alpha = alpha
        return woe, value

    @staticmethod
    def backward(ctx, g_woe, g_value):
        labels, weights, bins, pos, neg, pos_share, neg_share, woe = ctx.saved_tensors
        gap = pos_share - neg_share
        g_log = g_woe + g_value * gap
        g_pos_share = g_log / pos_share + g_value * woe
        g_neg_share = -g_log / neg_share - g_value * woe

        pos_total = pos.sum() + ctx.alpha
        neg_total = neg.sum() + ctx.alpha
        g_pos = (g_pos_share - (g_pos_share * pos_share).sum()) / pos_total
        g_neg = (g_neg_share - (g_neg_share * neg_share).sum()) / neg_total

        row_pos, row_neg = g_pos[bins], g_neg[bins]
        g_labels = weights * (row_pos - row_neg)
        g_weights = labels * row_pos + (1.0 - labels) * row_neg
        return g_labels, g_weights, None, None, None


class TargetEncoder(nn.Module):
    """Leave-one-out encoding while training, the running table at inference."""

    def __init__(self, n_categories: int, n_tasks: int, smoothing: float = DEFAULT_SMOOTHING):
        super().__init__()
        self.n_categories = n_categories
        self.log_smoothing = nn.Parameter(torch.tensor(float(smoothing)).log())
        self.register_buffer("sums", torch.zeros(n_categories, n_tasks))
        self.register_buffer("mass", torch.zeros(n_categories))

    @torch.no_grad()
    def _accumulate(self, targets: Tensor, weights: Tensor, codes: Tensor) -> None:
        known = codes >= 0
        self.sums.index_add_(0, codes[known], (weights[:, None] * targets)[known])
        self.mass.index_add_(0, codes[known], weights[known])

    def forward(self, codes: Tensor, targets: Optional[Tensor] = None,
                weights: Optional[Tensor] = None) -> Tensor:
        m = self.log_smoothing.exp()
        if targets is None:
            prior = self.sums.sum(0) / self.mass.sum().clamp_min(1e-6)
            table = (self.sums + m * prior) / (self.mass + m)[:, None]
            return torch.where((codes >= 0)[:, None], table[codes.clamp_min(0)], prior)
        if weights is None:
            weights = torch.ones_like(targets[:, 0])
        self._accumulate(targets.detach(), weights.detach(), codes)
        return LeaveOneOutMean.apply(targets, weights, m, codes, self.n_categories)


class CategoryEmbedding(nn.Module):
    def __init__(self, vocabulary: Vocabulary, dim: int, min_count: int = DEFAULT_MIN_COUNT):
        super().__init__()
        self.table = nn.Parameter(0.1 * torch.randn(len(vocabulary), dim))
        self.register_buffer("counts", vocabulary.counts)
        self.min_count = min_count

    def forward(self, codes: Tensor) -> Tensor:
        return RareBucketPool.apply(self.table, self.counts, codes, self.min_count)


class TeacherReweighter(nn.Module):
    """Learns sample weights which raise the information value of a column."""

    def __init__(self, n_features: int, n_bins: int, alpha: float = 0.5):
        super().__init__()
        self.score = nn.Linear(n_features, 1)
        self.n_bins, self.alpha = n_bins, alpha

    def forward(self, features: Tensor, soft: Tensor, bins: Tensor) -> Tuple[Tensor, Tensor]:
        weights = F.softplus(self.score(features)).squeeze(-1)
        woe, value = WeightOfEvidence.apply(soft, weights, bins, self.n_bins, self.alpha)
        return woe[bins], value


def quantile_bins(column: Tensor, n_bins: int) -> Tensor:
    edges = torch.quantile(column, torch.linspace(0, 1, n_bins + 1)[1:-1])
    return torch.bucketize(column, edges)


if __name__ == "__main__":
    torch.manual_seed(0)
    cities = ["ulm", "ulm", "bonn", "jena", "ulm", "bonn", None, "hof", "jena", "ulm", "bonn", "ulm"]
    vocabulary = Vocabulary.fit(cities)
    codes = vocabulary.encode(cities)
    targets = torch.rand(len(cities), 2, requires_grad=True)

    encoder = TargetEncoder(len(vocabulary), 2)
    embed = CategoryEmbedding(vocabulary, 4, min_count=3)
    features = torch.cat([encoder(codes, targets), embed(codes)], dim=1)
    reweight = TeacherReweighter(features.shape[1], n_bins=3)
    bins = quantile_bins(torch.randn(len(cities)), 3)
    woe, value = reweight(features, torch.sigmoid(targets[:, 0]), bins)
    (value + woe.square().mean() + features.square().mean()).backward()
    print("information value", value.item())
    print("smoothing grad", encoder.log_smoothing.grad.item())
    print("table grad", embed.table.grad.norm(dim=1).tolist())
