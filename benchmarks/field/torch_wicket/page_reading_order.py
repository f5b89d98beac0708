"""Heads for reading order and table structure on scanned pages.

The encoder gives one vector per text block (a line, a caption, a cell's
words). Three pieces sit on top of it:

* attention scores get a learned bias by the blocks' relative place on the
  page, and blocks of different pages of a batch do not see one another;
* the words of a table are pooled into cells, where a word inside merged
  cells counts in each of them;
* the successor head says which block is read next.
"""

from __future__ import annotations

import math
from typing import Callable, Dict, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

NO_SUCCESSOR = -1
SCORE_FLOOR = -1e4
DISTANCE_BUCKETS = 16
MAX_DISTANCE = 1000


class PageBatch(NamedTuple):
    boxes: Tensor        # (blocks, 4) integer x0, y0, x1, y1 on a 1000 grid
    page: Tensor         # (blocks,) integer
    features: Tensor     # (blocks, width)


class CellMembership(NamedTuple):
    """Pairs (word, cell), in no order."""

    word: Tensor
    cell: Tensor
    cells: int


def signed_log_bucket(delta: Tensor, buckets: int = DISTANCE_BUCKETS) -> Tensor:
    """T5-like buckets of a signed integer distance.

    Half of the buckets are for each sign; within a sign half are exact and
    half logarithmic up to ``MAX_DISTANCE``.
    """
    half = buckets // 2
    side = (delta > 0).long() * half
    size = delta.abs()
    exact = half // 2
    ratio = torch.log(size.clamp_min(1).float() / exact) / math.log(MAX_DISTANCE / exact)
    large = (exact + ratio * (half - exact)).long().clamp_max(half - 1)
    return side + torch.where(size < exact, size.long(), large)


def pairwise_buckets(boxes: Tensor) -> Tuple[Tensor, Tensor]:
    x = (boxes[:, 0] + boxes[:, 2]) // 2
    y = (boxes[:, 1] + boxes[:, 3]) // 2
    scale = 1 + MAX_DISTANCE // 64
    bx = signed_log_bucket((x[None, :] - x[:, None]) // scale)
    by = signed_log_bucket((y[None, :] - y[:, None]) // scale)
    return bx, by


class PlacedScores(Function):
    """Scaled scores plus the two tables' biases, floored across pages.

    scores : (heads, n, n)
    table_x, table_y : (buckets, heads)
    bucket_x, bucket_y : (n, n) integers
    same_page : (n, n) bool
    scale : float
    """

    @staticmethod
    def forward(scores, table_x, table_y, bucket_x, bucket_y, same_page, scale):
        bias = (table_x[bucket_x] + table_y[bucket_y]).permute(2, 0, 1)
        return (scale * scores + bias).masked_fill(~same_page, SCORE_FLOOR)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, table_x, table_y, bucket_x, bucket_y, same_page, scale = inputs
        ctx.save_for_backward(bucket_x, bucket_y, same_page)
        ctx.sizes = table_x.shape[0], table_y.shape[0]
        ctx.scale = scale

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        bucket_x, bucket_y, same_page = ctx.saved_tensors
        live = grad * same_page.to(grad.dtype)
        rows = live.permute(1, 2, 0).reshape(-1, grad.shape[0])

        def collect(bucket: Tensor, size: int) -> Tensor:
            return rows.new_zeros(size, rows.shape[1]).index_add(0, bucket.reshape(-1), rows)

        d_x = collect(bucket_x, ctx.sizes[0]) if ctx.needs_input_grad[1] else None
        d_y = collect(bucket_y, ctx.sizes[1]) if ctx.needs_input_grad[2] else None
        return ctx.scale * live, d_x, d_y, None, None, None, None


class MergedCellMean(Function):
    """Mean of the words of each table cell.

    Args:
        words: ``(words, width)``.
        word: ``(pairs,)`` index of the word of each membership.
        cell: ``(pairs,)`` index of its cell.
        cells: number of cells of the table (int); a cell without words is
            a zero vector.
    """

    @staticmethod
    def forward(ctx, words, word, cell, cells):
        count = torch.bincount(cell, minlength=cells).clamp_min(1).to(words.dtype)
        total = words.new_zeros(cells, words.shape[1]).index_add(0, cell, words[word])
        ctx.save_for_backward(word, cell, count)
        ctx.n_words = words.shape[0]
        return total / count.unsqueeze(-1)

    @staticmethod
    def backward(ctx, grad):
        word, cell, count = ctx.saved_tensors
        share = (grad / count.unsqueeze(-1))[cell]
        d_words = grad.new_zeros(ctx.n_words, grad.shape[1])
        d_words[word] = share
        return d_words, None, None, None


class SuccessorNLL(Function):
    """Mean negative log likelihood of the next block.

    A block can be followed by any other present block of its page. Blocks
    that end a page (target ``NO_SUCCESSOR``), that are absent, or whose
    labelled successor cannot follow them do not count; with none left the loss is zero.

    logits and the loss's gradient have shape (batch, n, n), row = block,
    column = the block read after it. ``present`` is (batch, n).
    """

    @staticmethod
    def forward(ctx, logits, target, present):
        n = logits.shape[-1]
        itself = torch.eye(n, dtype=torch.bool, device=logits.device)
        allowed = (present.unsqueeze(-2) & ~itself).expand(logits.shape)
        index = target.clamp_min(0).unsqueeze(-1)
        possible = allowed.gather(-1, index).squeeze(-1)
        counted = present & (target != NO_SUCCESSOR) & possible
        masked = logits.masked_fill(~allowed, float("-inf"))
        masked = torch.where(counted.unsqueeze(-1), masked, torch.zeros_like(masked))
        logp = torch.log_softmax(masked, dim=-1)
        picked = logp.gather(-1, index).squeeze(-1)
        number = counted.sum().clamp_min(1).to(logits.dtype)
        ctx.save_for_backward(logp, index, counted, number)
        return -torch.where(counted, picked, torch.zeros_like(picked)).sum() / number

    @staticmethod
    def backward(ctx, grad):
        logp, index, counted, number = ctx.saved_tensors
        diff = logp.exp()
        diff = diff.scatter_add(-1, index, -torch.ones_like(index, dtype=diff.dtype))
        diff = diff * counted.unsqueeze(-1).to(diff.dtype)
        return diff * (grad / number), None, None


class PlacedAttention(nn.Module):
    """Self-attention among the blocks of a batch of pages."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.table_x = nn.Parameter(torch.zeros(DISTANCE_BUCKETS, heads))
        self.table_y = nn.Parameter(torch.zeros(DISTANCE_BUCKETS, heads))

    def forward(self, batch: PageBatch) -> Tensor:
        n, width = batch.features.shape
        q, k, v = self.qkv(batch.features).reshape(n, 3, self.heads, -1).permute(1, 2, 0, 3)
        bucket_x, bucket_y = pairwise_buckets(batch.boxes)
        same_page = batch.page[:, None] == batch.page[None, :]
        scores = PlacedScores.apply(
            q @ k.transpose(-1, -2),
            self.table_x,
            self.table_y,
            bucket_x,
            bucket_y,
            same_page,
            q.shape[-1] ** -0.5,
        )
        mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.permute(1, 0, 2).reshape(n, width))


class TableCellEncoder(nn.Module):
    def __init__(self, width: int, activation: Callable[[Tensor], Tensor] = F.gelu):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.activation = activation

    def forward(self, words: Tensor, member: CellMembership) -> Tensor:
        pooled = MergedCellMean.apply(words, member.word, member.cell, member.cells)
        return self.activation(self.project(pooled))


class SuccessorHead(nn.Module):
    def __init__(self, width: int, inner: int = 64):
        super().__init__()
        self.before = nn.Linear(width, inner)
        self.after = nn.Linear(width, inner)

    def logits(self, features: Tensor) -> Tensor:
        a, b = self.before(features), self.after(features)
        return a @ b.transpose(-1, -2) / math.sqrt(a.shape[-1])

    def forward(
        self, features: Tensor, present: Tensor, target: Optional[Tensor] = None
    ) -> Dict[str, Tensor]:
        logits = self.logits(features)
        out = {"logits": logits}
        if target is not None:
            out["loss"] = SuccessorNLL.apply(logits, target, present)
        return out


def expand_merged_cells(spans: Dict[int, Tuple[int, int, int, int]], columns: int, rows: int):
    """Membership of words from their cells' spans.

    ``spans`` maps a word to ``(row0, row1, col0, col1)`` with ends excluded;
    a word of a merged cell gets one pair for each grid cell it covers.
    """
    word, cell = [], []
    for w, (r0, r1, c0, c1) in spans.items():
        for r in range(r0, r1):
            for c in range(c0, c1):
                word.append(w)
                cell.append(r * columns + c)
    return CellMembership(torch.tensor(word), torch.tensor(cell), rows * columns)


if __name__ == "__main__":
    torch.manual_seed(1)
    boxes = torch.randint(0, 1000, (6, 4)).sort(-1).values
    batch = PageBatch(boxes, torch.tensor([0, 0, 0, 1, 1, 1]), torch.randn(6, 32))
    features = PlacedAttention(32, 4)(batch)
    member = expand_merged_cells({0: (0, 1, 0, 2), 1: (1, 2, 0, 1), 2: (1, 2, 1, 2)}, 2, 2)
    cells = TableCellEncoder(32)(features, member)
    head = SuccessorHead(32)
    out = head(
        features.reshape(2, 3, 32),
        torch.ones(2, 3, dtype=torch.bool),
        torch.tensor([[1, 2, -1], [2, 0, -1]]),
    )
    print(cells.shape, out["loss"])
