from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable


class HierarchicalSoftmaxNLL(torch.autograd.Function):
    """Negative log-likelihood of words under a binary code tree (Morin & Bengio, 2005).

    Only the nodes on the paths of the batch are touched. Paths are padded with ``-1``.
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, labels, paths, codes, reduction, ignore_index):
        keep = labels != ignore_index
        safe = labels.masked_fill(~keep, 0)
        nodes = paths[safe]                                   # (B, D)
        live = (nodes >= 0) & keep[:, None]
        nodes = nodes.clamp_min(0)
        sign = codes[safe].to(hidden.dtype) * 2 - 1
        logit = torch.einsum("bd,bkd->bk", hidden, weight[nodes]) + bias[nodes]
        nll = -(F.logsigmoid(sign * logit) * live).sum(1)
        n = keep.sum().clamp_min(1)
        # d nll / d logit, 0 on padding
        slope = -sign * torch.sigmoid(-sign * logit) * live
        ctx.save_for_backward(hidden, weight, nodes, slope, n)
        ctx.reduction = reduction
        if reduction == "mean":
            return nll.sum() / n
        if reduction == "sum":
            return nll.sum()
        return nll

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        hidden, weight, nodes, slope, n = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad = grad / n
        g = slope * (grad[:, None] if ctx.reduction == "none" else grad)
        d_hidden = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_hidden = torch.einsum("bk,bkd->bd", g, weight[nodes])
        flat = nodes.reshape(-1)
        if ctx.needs_input_grad[1]:
            outer = g.unsqueeze(-1) * hidden.unsqueeze(1)
            d_weight = torch.zeros_like(weight).index_add_(0, flat, outer.reshape(flat.numel(), -1))
        if ctx.needs_input_grad[2]:
            d_bias = g.new_zeros(weight.shape[0]).index_add_(0, flat, g.reshape(-1))
        return d_hidden, d_weight, d_bias, None, None, None, None, None


class CodeTree(nn.Module):
    """Output layer over a fixed code tree.

    paths: LongTensor (V, D), inner node ids from the root down, -1 beyond the leaf.
    codes: BoolTensor (V, D), which way the path turns at that node.
    """

    def __init__(self, dim: int, paths: torch.Tensor, codes: torch.Tensor, ignore_index: int = -100):
        super().__init__()
        self.register_buffer("paths", paths)
        self.register_buffer("codes", codes)
        n_inner = int(paths.max()) + 1
        self.weight = nn.Parameter(torch.randn(n_inner, dim) * dim ** -0.5)
        self.bias = nn.Parameter(torch.zeros(n_inner))
        self.ignore_index = ignore_index

    def forward(self, hidden, labels, reduction: str = "mean"):
        return HierarchicalSoftmaxNLL.apply(
            hidden, self.weight, self.bias, labels, self.paths, self.codes, reduction, self.ignore_index
        )


class TreeChildSum(torch.autograd.Function):
    """Sum the messages of all children at their parent, for the Child-Sum Tree-LSTM.

    Returns two tensors: ``sum_c h_c`` and ``sum_c f_c * c_c``.
    """

    @staticmethod
    def forward(ctx, h, forget, cell, parent):
        child = parent >= 0
        dst = parent[child]
        h_sum = torch.zeros_like(h).index_add_(0, dst, h[child])
        c_sum = torch.zeros_like(cell).index_add_(0, dst, (forget * cell)[child])
        ctx.save_for_backward(forget, cell, parent)
        return h_sum, c_sum

    @staticmethod
    def backward(ctx, grad_h_sum, grad_c_sum):
        forget, cell, parent = ctx.saved_tensors
        grad_h = grad_h_sum[parent]
        message = grad_c_sum[parent]
        return grad_h, message * cell, message * forget, None


def child_sum(h: torch.Tensor, forget: torch.Tensor, cell: torch.Tensor,
              parent: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Gather children states in a forest of parse trees.

    Args:
        h: hidden states, (N, d); all trees of the batch are stacked.
        forget: forget gate of every node towards its parent, (N, d).
        cell: cell states, (N, d).
        parent: LongTensor (N,), row of the parent; -1 for the root of a tree. Any order of nodes.

    Returns:
        (N, d) sums of hidden states and of gated cell states; zero at leaves.
    """
    return TreeChildSum.apply(h, forget, cell, parent)


class ChildSumCell(nn.Module):
    def __init__(self, d_in: int, d: int):
        super().__init__()
        self.iou = nn.Linear(d_in + d, 3 * d)
        self.f = nn.Linear(d_in + d, d)

    def forward(self, x, h, c, parent):
        x_parent = x[parent.clamp_min(0)]
        forget = torch.sigmoid(self.f(torch.cat((x_parent, h), -1)))
        h_sum, c_sum = child_sum(h, forget, c, parent)
        i, o, u = self.iou(torch.cat((x, h_sum), -1)).chunk(3, -1)
        c_new = torch.sigmoid(i) * torch.tanh(u) + c_sum
        return torch.sigmoid(o) * torch.tanh(c_new), c_new


class SmoothGlobalAlignment(torch.autograd.Function):

    @staticmethod
    def forward(ctx, scores, gap, x_len, y_len, temperature, leading):
        b, n, m = scores.shape
        value = scores.new_zeros(b, n + 1, m + 1)
        gap_b = gap.expand(b)
        if leading == "penalized":
            value[:, :, 0] = gap_b[:, None] * torch.arange(n + 1, device=scores.device)
            value[:, 0, :] = gap_b[:, None] * torch.arange(m + 1, device=scores.device)
        prob = scores.new_zeros(b, n + 1, m + 1, 3)
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                cand = torch.stack((
                    value[:, i - 1, j - 1] + scores[:, i - 1, j - 1],
                    value[:, i - 1, j] + gap_b,
                    value[:, i, j - 1] + gap_b,
                ), -1) / temperature
                lse = torch.logsumexp(cand, -1)
                value[:, i, j] = temperature * lse
                prob[:, i, j] = (cand - lse[:, None]).exp()
        rows = torch.arange(b, device=scores.device)
        ctx.save_for_backward(prob, x_len, y_len)
        ctx.gap_shape = gap.shape
        return value[rows, x_len, y_len]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        prob, x_len, y_len = ctx.saved_tensors
        b, n1, m1, _ = prob.shape
        # expected number of visits of every cell, walked back from the end of each pair
        visit = prob.new_zeros(b, n1, m1)
        visit[torch.arange(b, device=prob.device), x_len, y_len] = grad
        for i in range(n1 - 1, 0, -1):
            for j in range(m1 - 1, 0, -1):
                flow = visit[:, i, j, None] * prob[:, i, j]
                visit[:, i - 1, j - 1] += flow[:, 0]
                visit[:, i - 1, j] += flow[:, 1]
                visit[:, i, j - 1] += flow[:, 2]
        inner = visit[:, 1:, 1:]
        grad_scores = inner * prob[:, 1:, 1:, 0]
        per_pair = (inner * (prob[:, 1:, 1:, 1] + prob[:, 1:, 1:, 2])).sum((1, 2))
        return grad_scores, per_pair.sum_to_size(ctx.gap_shape), None, None, None, None


def smooth_alignment(
    scores: torch.Tensor,
    gap: torch.Tensor,
    x_len: Optional[torch.Tensor] = None,
    y_len: Optional[torch.Tensor] = None,
    *,
    temperature: float = 1.0,
    leading: str = "free",
) -> torch.Tensor:
    """Smoothed Needleman-Wunsch score of a batch of sequence pairs.

    The max of the recursion is replaced by ``temperature * logsumexp(. / temperature)``.

    Parameters
    ----------
    scores : (B, n, m) substitution scores
    gap : 0-d or (B,), the (usually negative) score of one gap symbol
    x_len, y_len : (B,) long, true lengths (from 1); full length when omitted
    temperature : positive float
    leading : "free" or "penalized"
        whether gaps in front of the first aligned pair cost nothing or ``gap`` each. The border of the table is
        one path then (it is not smoothed). Trailing gaps always count.

    Returns
    -------
    (B,) alignment scores, differentiable in ``scores`` and ``gap``.
    """
    if leading not in ("free", "penalized"):
        raise ValueError(leading)
    b, n, m = scores.shape
    x_len = scores.new_full((b,), n, dtype=torch.long) if x_len is None else x_len
    y_len = scores.new_full((b,), m, dtype=torch.long) if y_len is None else y_len
    return SmoothGlobalAlignment.apply(scores, gap, x_len, y_len, temperature, leading)
