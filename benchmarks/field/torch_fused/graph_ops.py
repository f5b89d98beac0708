"""Scatter / gather operators for graphs, ragged sequences and lookup tables."""
import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _expand(index, like):
    return index.view(-1, *([1] * (like.dim() - 1))).expand_as(like)


class SegmentSoftmax(Function):
    """Softmax over the edges which point to the same node.

    Args:
        logits: (E,) or (E, heads) attention logits.
        index: (E,) int64 target node of each edge, in any order.
        num_nodes: number of nodes.

    Returns:
        Same shape as logits.
    """

    @staticmethod
    def forward(ctx, logits, index, num_nodes):
        idx = _expand(index, logits)
        top = logits.new_full((num_nodes, *logits.shape[1:]), float("-inf"))
        top = top.scatter_reduce(0, idx, logits, reduce="amax")
        e = torch.exp(logits - top.gather(0, idx))
        z = torch.zeros_like(top).scatter_add_(0, idx, e)
        alpha = e / z.gather(0, idx)
        ctx.save_for_backward(alpha, index)
        ctx.num_nodes = num_nodes
        return alpha

    @staticmethod
    def backward(ctx, g):
        alpha, index = ctx.saved_tensors
        idx = _expand(index, alpha)
        ga = g * alpha
        s = ga.new_zeros((ctx.num_nodes, *ga.shape[1:])).scatter_add(0, idx, ga)
        return ga - alpha * s.gather(0, idx), None, None


class GATLayer(nn.Module):
    def __init__(self, d_in, d_out, heads=4):
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(d_in, heads * d_out, bias=False)
        self.att_src = nn.Parameter(torch.randn(heads, d_out) * 0.1)
        self.att_dst = nn.Parameter(torch.randn(heads, d_out) * 0.1)

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = self.lin(x).view(x.shape[0], self.heads, -1)
        logit = (h[src] * self.att_src).sum(-1) + (h[dst] * self.att_dst).sum(-1)
        alpha = SegmentSoftmax.apply(nn.functional.leaky_relu(logit, 0.2), dst, x.shape[0])
        out = torch.zeros_like(h)
        return out.index_add(0, dst, alpha.unsqueeze(-1) * h[src]).flatten(1)


def _propagate(edge_index, edge_weight, x):
    src, dst = edge_index
    return torch.zeros_like(x).index_add_(0, dst, edge_weight.unsqueeze(-1) * x[src])


class WeightedPropagate(Function):
    # y = A x with A given as an edge list

    @staticmethod
    def forward(ctx, edge_index, edge_weight, x):
        ctx.save_for_backward(edge_index, edge_weight, x)
        return _propagate(edge_index, edge_weight, x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        edge_index, edge_weight, x = ctx.saved_tensors
        grad_w = grad_x = None
        if ctx.needs_input_grad[1]:
            src, dst = edge_index
            grad_w = (x[src] * grad_out[dst]).sum(-1)
        if ctx.needs_input_grad[2]:
            grad_x = _propagate(edge_index, edge_weight, grad_out)
        return None, grad_w, grad_x


class GCNConv(nn.Module):
    """Graph convolution with symmetric normalisation."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out)

    def forward(self, x, edge_index):
        deg = torch.bincount(edge_index[1], minlength=x.shape[0]).clamp(min=1).to(x.dtype)
        norm = (deg[edge_index[0]] * deg[edge_index[1]]).rsqrt()
        return WeightedPropagate.apply(edge_index, norm, self.lin(x))


class ScaledEmbedding(Function):

    @staticmethod
    def forward(ctx, ids, weight):
        ctx.save_for_backward(ids)
        ctx.shape = weight.shape
        return weight[ids] * math.sqrt(weight.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (ids,) = ctx.saved_tensors
        out = grad.new_zeros(ctx.shape)
        out[ids] += grad * math.sqrt(ctx.shape[1])
        return None, out


class TokenEmbedding(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, dim) / math.sqrt(dim))

    def forward(self, ids):
        return ScaledEmbedding.apply(ids, self.weight)


class RaggedEmbeddingBag(Function):
    """Sum or mean of table rows per bag.

    Parameters
    ----------
    weight : Tensor, shape (V, D)
        The table.
    ids : LongTensor, shape (L,)
        Row numbers of all bags one after another.
    offsets : LongTensor, shape (B,)
        Where each bag begins in ``ids``; empty bags give zeros.
    mode : {"sum", "mean"}
    per_sample_weights : Tensor, shape (L,), optional
        Only with ``mode="sum"``.

    Returns
    -------
    Tensor, shape (B, D)
    """

    @staticmethod
    def forward(ctx, weight, ids, offsets, mode="sum", per_sample_weights=None):
        if mode == "mean" and per_sample_weights is not None:
            raise ValueError("per_sample_weights needs mode='sum'")
        ends = torch.cat([offsets[1:], offsets.new_tensor([ids.numel()])])
        sizes = ends - offsets
        bag = torch.repeat_interleave(torch.arange(offsets.numel(), device=ids.device), sizes)
        if mode == "mean":
            coef = (1.0 / sizes.to(weight.dtype))[bag]
        elif per_sample_weights is not None:
            coef = per_sample_weights
        else:
            coef = weight.new_ones(ids.numel())
        out = weight.new_zeros(offsets.numel(), weight.shape[1])
        out.index_add_(0, bag, weight[ids] * coef[:, None])
        ctx.save_for_backward(weight, ids, bag, coef)
        ctx.weighted = per_sample_weights is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        weight, ids, bag, coef = ctx.saved_tensors
        gw = gp = None
        per_id = g[bag]
        if ctx.needs_input_grad[0]:
            gw = torch.zeros_like(weight).index_add_(0, ids, per_id * coef[:, None])
        if ctx.weighted and ctx.needs_input_grad[4]:
            gp = (weight[ids] * per_id).sum(1)
        return gw, None, None, None, gp


class PackPadded(Function):
    """Remove the padding of a batch (FlashAttention "varlen" layout).

    x: (B, T, *feature), lengths: (B,)  ->  packed (sum(lengths), *feature) and
    cu_seqlens (B + 1,) int32.
    """

    @staticmethod
    def forward(ctx, x, lengths):
        mask = torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)
        rows = mask.flatten().nonzero().squeeze(1)
        cu = torch.zeros(lengths.numel() + 1, dtype=torch.int32, device=x.device)
        cu[1:] = lengths.cumsum(0)
        ctx.mark_non_differentiable(cu)
        ctx.save_for_backward(rows)
        ctx.shape = x.shape
        return x.flatten(0, 1)[rows], cu

    @staticmethod
    def backward(ctx, g, _):
        (rows,) = ctx.saved_tensors
        full = g.new_zeros(ctx.shape[0] * ctx.shape[1], *ctx.shape[2:])
        return full.index_copy(0, rows, g).view(ctx.shape), None


def embedding_bag(weight, ids, offsets, mode="sum", per_sample_weights=None):
    return RaggedEmbeddingBag.apply(weight, ids, offsets, mode, per_sample_weights)


segment_softmax = SegmentSoftmax.apply
pack_padded = PackPadded.apply
