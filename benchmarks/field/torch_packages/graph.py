"""Message passing primitives."""

from typing import Optional

import torch
from torch import Tensor
from torch.autograd import Function


class SparseCrossEntropyFunction(Function):
    """Cross entropy against sparse, possibly multi-valued targets.

    Args:
        inputs (Tensor): Logits of shape ``[rows, classes]``.
        edge_label_index (LongTensor): Pairs of row and class, shape ``[2, edges]``; a pair may occur several times.
        edge_label_weight (Tensor, optional): Weight of each pair, shape ``[edges]``.

    Returns:
        The sum over all pairs of the weighted negative log-probabilities, divided by the number of rows.
    """

    @staticmethod
    def forward(ctx, inputs: Tensor, edge_label_index: Tensor, edge_label_weight: Optional[Tensor] = None) -> Tensor:
        row, col = edge_label_index
        logp = inputs.log_softmax(dim=-1)
        picked = logp[row, col]
        ctx.save_for_backward(logp, edge_label_index, edge_label_weight)
        if edge_label_weight is not None:
            picked = picked * edge_label_weight
        return -picked.sum() / inputs.size(0)

    @staticmethod
    def backward(ctx, grad_out: Tensor):
        logp, edge_label_index, weight = ctx.saved_tensors
        row, col = edge_label_index
        grad_out = grad_out / logp.size(0)
        grad_weight = None
        if weight is not None and ctx.needs_input_grad[2]:
            grad_weight = -grad_out * logp[row, col]
        value = logp.new_ones(row.numel()) if weight is None else weight
        mass = logp.new_zeros(logp.size(0)).index_add_(0, row, value)
        grad = logp.exp() * mass.view(-1, 1)
        grad[row, col] -= value
        return grad * grad_out, None, grad_weight


def sparse_cross_entropy(inputs, edge_label_index, edge_label_weight=None):
    return SparseCrossEntropyFunction.apply(inputs, edge_label_index, edge_label_weight)


def _expand(index: Tensor, like: Tensor) -> Tensor:
    return index.view([-1] + [1] * (like.dim() - 1)).expand_as(like)


@torch.library.custom_op("graphkit::segment_softmax", mutates_args=())
def segment_softmax(src: Tensor, index: Tensor, num_segments: int) -> Tensor:
    """Softmax over the entries of ``src`` (leading dimension) that share a segment number."""
    idx = _expand(index, src)
    shape = [num_segments, *src.shape[1:]]
    top = src.new_zeros(shape).scatter_reduce(0, idx, src, "amax", include_self=False)
    e = (src - top[index]).exp()
    total = src.new_zeros(shape).index_add(0, index, e)
    return e / total[index]


@segment_softmax.register_fake
def _(src, index, num_segments):
    return torch.empty_like(src)


def _segment_softmax_context(ctx, inputs, output):
    _, index, ctx.num_segments = inputs
    ctx.save_for_backward(index, output)


def _segment_softmax_backward(ctx, grad):
    index, out = ctx.saved_tensors
    weighted = grad * out
    total = weighted.new_zeros([ctx.num_segments, *weighted.shape[1:]]).index_add(0, index, weighted)
    return weighted - out * total[index], None, None


segment_softmax.register_autograd(_segment_softmax_backward, setup_context=_segment_softmax_context)


@torch.library.custom_op("graphkit::segment_mean", mutates_args=())
def segment_mean(src: Tensor, index: Tensor, num_segments: int) -> Tensor:
    """Mean of the entries of each segment along the leading dimension, zero for an empty segment."""
    total = src.new_zeros([num_segments, *src.shape[1:]]).index_add(0, index, src)
    count = torch.bincount(index, minlength=num_segments).clamp_min(1).to(src.dtype)
    return total / count.view([-1] + [1] * (src.dim() - 1))


@segment_mean.register_fake
def _(src, index, num_segments):
    return src.new_empty([num_segments, *src.shape[1:]])


def _segment_mean_context(ctx, inputs, output):
    _, index, _ = inputs
    ctx.save_for_backward(index)


def _segment_mean_backward(ctx, grad):
    (index,) = ctx.saved_tensors
    return grad.index_select(0, index), None, None


segment_mean.register_autograd(_segment_mean_backward, setup_context=_segment_mean_context)


class MeanAggregation(torch.nn.Module):
    def forward(self, x: Tensor, index: Tensor, num_segments: Optional[int] = None) -> Tensor:
        if num_segments is None:
            num_segments = int(index.max()) + 1 if index.numel() else 0
        return segment_mean(x, index, num_segments)
