"""Training objectives with their gradients worked out by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class TVDLossFunction(Function):
    """Total variation distance between two sets of distributions.

    Parameters
    ----------
    p, q : Tensor, shape (rows, vocab)
        Probabilities.
    shift_labels : LongTensor, shape (rows,), optional
        Rows whose label equals `ignore_index` do not count.
    reduction : {'batchmean', 'sum', 'mean', 'none'}
        ``batchmean`` divides by the number of rows that count, ``mean`` by the number of their entries.
    ignore_index : int

    Returns
    -------
    Tensor
        A scalar, or (rows, vocab) for ``'none'``.
    """

    @staticmethod
    def forward(ctx, p, q, shift_labels=None, reduction="batchmean", ignore_index=-100):
        rows, vocab = p.shape
        loss = 0.5 * (p - q).abs()
        slope = 0.5 * torch.sign(p - q)
        count = rows
        if shift_labels is not None:
            keep = shift_labels != ignore_index
            count = max(int(keep.sum()), 1)
            loss = loss * keep[:, None]
            slope = slope * keep[:, None]

        if reduction == "batchmean":
            loss = loss.sum() / count
            slope = slope / rows
        elif reduction == "mean":
            loss = loss.sum() / (count * vocab)
            slope = slope / (rows * vocab)
        elif reduction == "sum":
            loss = loss.sum()
        elif reduction != "none":
            raise ValueError(f"unknown reduction {reduction!r}")
        ctx.save_for_backward(slope)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (slope,) = ctx.saved_tensors
        grad_p = grad_output * slope
        return grad_p, -grad_p, None, None, None


class DPOLossFunction(Function):
    @staticmethod
    def forward(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta=0.1, label_smoothing=0.0):
        margin = (policy_chosen - policy_rejected) - (ref_chosen - ref_rejected)
        losses = -(1.0 - label_smoothing) * F.logsigmoid(beta * margin) - label_smoothing * F.logsigmoid(
            -beta * margin
        )
        return losses.mean(), beta * (policy_chosen - ref_chosen), beta * (policy_rejected - ref_rejected)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *logps, beta, label_smoothing = inputs
        _, chosen, rejected = output
        ctx.mark_non_differentiable(chosen, rejected)
        ctx.save_for_backward(*logps)
        ctx.beta, ctx.label_smoothing = beta, label_smoothing

    @staticmethod
    def backward(ctx, grad_loss, _chosen, _rejected):
        pc, pr, rc, rr = ctx.saved_tensors
        margin = (pc - pr) - (rc - rr)
        slope = torch.sigmoid(ctx.beta * margin) - (1.0 - ctx.label_smoothing)
        grad = grad_loss * ctx.beta * slope / margin.numel()
        signs = (1.0, -1.0, -1.0, 1.0)
        return (*(s * grad if need else None for s, need in zip(signs, ctx.needs_input_grad)), None, None)


def dpo_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, *, beta=0.1, label_smoothing=0.0):
    loss, chosen, rejected = DPOLossFunction.apply(
        policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta, label_smoothing
    )
    return loss, {"rewards/chosen": chosen.mean(), "rewards/rejected": rejected.mean()}


class SortedWassersteinFunction(Function):
    """Wasserstein cost, to the power ``p``, between equally many samples on the line.

    ``u`` and ``v`` are ``(..., n)`` in any order; gives ``mean(|sort(u) - sort(v)|**p)`` of shape ``(...)``.
    """

    @staticmethod
    def forward(ctx, u: torch.Tensor, v: torch.Tensor, p: float = 2.0) -> torch.Tensor:
        us, u_order = u.sort(dim=-1)
        vs, v_order = v.sort(dim=-1)
        gap = us - vs
        ctx.p = p
        ctx.save_for_backward(gap, u_order, v_order)
        return gap.abs().pow(p).mean(dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        gap, u_order, v_order = ctx.saved_tensors
        g = grad.unsqueeze(-1) * ctx.p * gap.abs().pow(ctx.p - 1.0) * gap.sign() / gap.shape[-1]
        return g.gather(-1, u_order), -g.gather(-1, v_order), None


class SquaredHingeLossFunction(Function):

    @staticmethod
    def forward(ctx, predictions, targets):
        slack = (1.0 - predictions * targets).clamp(min=0)
        ctx.save_for_backward(slack, targets)
        return slack.square().mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        slack, targets = ctx.saved_tensors
        grad = -2.0 * grad_output * targets * slack / slack.shape[0]
        return grad, None


class SqrHinge(nn.Module):
    """Mean squared hinge loss for targets in {-1, +1}."""

    def forward(self, predictions, targets):
        return SquaredHingeLossFunction.apply(predictions, targets)


def _overlap(pred, target):
    top_left = torch.maximum(pred[:, :2], target[:, :2])
    bottom_right = torch.minimum(pred[:, 2:], target[:, 2:])
    return (bottom_right - top_left).clamp(min=0)


def _hull(pred, target):
    return torch.maximum(pred[:, 2:], target[:, 2:]) - torch.minimum(pred[:, :2], target[:, :2])


@torch.library.custom_op("objectives::giou_loss", mutates_args=())
def giou_loss(pred: torch.Tensor, target: torch.Tensor, eps: float = 1e-7) -> torch.Tensor:
    """Generalised IoU loss of paired boxes.

    Args:
        pred: ``(n, 4)`` boxes as ``x1, y1, x2, y2`` with ``x1 < x2`` and ``y1 < y2``.
        target: ``(n, 4)`` boxes, the same form.
        eps: added to the denominators.

    Returns:
        ``(n,)`` losses between 0 and 2.
    """
    inter = _overlap(pred, target).prod(-1)
    union = (pred[:, 2:] - pred[:, :2]).prod(-1) + (target[:, 2:] - target[:, :2]).prod(-1) - inter
    hull = _hull(pred, target).prod(-1)
    return 1 - inter / (union + eps) + (hull - union) / (hull + eps)


@giou_loss.register_fake
def _(pred, target, eps=1e-7):
    return pred.new_empty(pred.shape[0])


def _giou_setup(ctx, inputs, output):
    pred, target, eps = inputs
    ctx.save_for_backward(pred, target)
    ctx.eps = eps


def _giou_backward(ctx, grad):
    pred, target = ctx.saved_tensors
    eps = ctx.eps
    sides_p, sides_t = pred[:, 2:] - pred[:, :2], target[:, 2:] - target[:, :2]
    sides_i, sides_h = _overlap(pred, target), _hull(pred, target)
    inter, hull = sides_i.prod(-1), sides_h.prod(-1)
    union = sides_p.prod(-1) + sides_t.prod(-1) - inter

    d_union = inter / (union + eps).square() - 1 / (hull + eps)
    d_inter = -1 / (union + eps) - d_union
    d_hull = (union + eps) / (hull + eps).square()

    def sides(scale, s):
        return (grad * scale).unsqueeze(-1) * s.flip(-1)

    gi, gh = sides(d_inter, sides_i), sides(d_hull, sides_h)

    def box(own, other, own_sides):
        ga = sides(d_union, own_sides)
        low = -ga - gi * (own[:, :2] > other[:, :2]) - gh * (own[:, :2] < other[:, :2])
        high = ga + gi * (own[:, 2:] < other[:, 2:]) + gh * (own[:, 2:] > other[:, 2:])
        return torch.cat((low, high), dim=-1)

    return box(pred, target, sides_p), box(target, pred, sides_t), None


giou_loss.register_autograd(_giou_backward, setup_context=_giou_setup)
