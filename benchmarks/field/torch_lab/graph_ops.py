"""Lookups, segments and message passing."""
import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class EmbeddingLookup(Function):
    """Rows of ``table`` (V, D) picked by integer ``ids`` of any shape."""

    @staticmethod
    def forward(ctx, table, ids):
        ctx.save_for_backward(ids)
        ctx.vocab = table.shape[0]
        return table[ids]

    @staticmethod
    def backward(ctx, grad):
        (ids,) = ctx.saved_tensors
        out = grad.new_zeros(ctx.vocab, grad.shape[-1])
        out[ids.reshape(-1)] = grad.reshape(-1, grad.shape[-1])
        return out, None


def _bag_ids(offsets, total):
    """[0, 2, 2, 5], 6 -> [0, 0, 2, 2, 2, 3]"""
    ends = torch.cat([offsets[1:], offsets.new_tensor([total])])
    return torch.repeat_interleave(torch.arange(len(offsets), device=offsets.device), ends - offsets)


class EmbeddingBagFn(Function):
    """Sum or mean of the embeddings of each bag.

    Parameters
    ----------
    weight : Tensor (V, D)
    ids : LongTensor (L,)
        Concatenated ids of all bags.
    offsets : LongTensor (B,)
        Start of each bag within ``ids`` (first is 0). Empty bags give zeros.
    mode : {"sum", "mean"}

    Returns
    -------
    Tensor (B, D)
    """

    @staticmethod
    def forward(ctx, weight, ids, offsets, mode="mean"):
        bag = _bag_ids(offsets, ids.numel())
        out = weight.new_zeros(offsets.numel(), weight.shape[1]).index_add(0, bag, weight[ids])
        count = torch.bincount(bag, minlength=offsets.numel()).clamp(min=1).to(weight.dtype)
        if mode == "mean":
            out = out / count[:, None]
        ctx.save_for_backward(ids, bag, count)
        ctx.mode, ctx.num = mode, weight.shape[0]
        return out

    @staticmethod
    def backward(ctx, g):
        ids, bag, count = ctx.saved_tensors
        if ctx.mode == "mean":
            g = g / count[:, None]
        gw = g.new_zeros(ctx.num, g.shape[1]).index_add(0, ids, g[bag])
        return gw, None, None, None


class SegmentSoftmax(Function):
    # scores (E, H), segment (E,) unsorted is fine
    @staticmethod
    def forward(ctx, scores, segment, num_segments):
        idx = segment[:, None].expand_as(scores)
        top = scores.new_full((num_segments, scores.shape[1]), -torch.inf)
        top = top.scatter_reduce(0, idx, scores, "amax")
        e = (scores - top[segment]).exp()
        z = e.new_zeros(num_segments, e.shape[1]).index_add(0, segment, e)
        p = e / z[segment]
        ctx.save_for_backward(p, segment)
        ctx.num_segments = num_segments
        return p

    @staticmethod
    def backward(ctx, g):
        p, segment = ctx.saved_tensors
        pg = p * g
        tot = pg.new_zeros(ctx.num_segments, pg.shape[1]).index_add(0, segment, pg)
        return pg - p * tot[segment], None, None


@torch.library.custom_op("minignn::spmm", mutates_args=())
def spmm(x: Tensor, edge_weight: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    """Weighted neighbour sum, out[dst[e]] += edge_weight[e] * x[src[e]].

    x is (num_nodes, features), the other three (num_edges,).
    """
    return torch.zeros_like(x).index_add(0, dst, edge_weight[:, None] * x[src])


def _spmm_setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _spmm_backward(ctx, grad):
    x, w, src, dst = ctx.saved_tensors
    gx = torch.zeros_like(x).index_add(0, dst, w[:, None] * grad[src])
    gw = (x[src] * grad[dst]).sum(-1)
    return gx, gw, None, None


spmm.register_autograd(_spmm_backward, setup_context=_spmm_setup)


class GCNConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out)

    def forward(self, x, edge_index, edge_weight):
        return spmm(self.lin(x), edge_weight, edge_index[0], edge_index[1])


class GATScores(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.a = nn.Linear(2 * dim, heads, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index
        e = nn.functional.leaky_relu(self.a(torch.cat([x[src], x[dst]], -1)), 0.2)
        return SegmentSoftmax.apply(e, dst, x.shape[0])
