"""Training objectives with memory-lean backward passes."""
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class SelectiveLogProbFunction(torch.autograd.Function):
    """Log-probability of chosen tokens straight from hidden states.

    The logits are ``(hidden @ weight.T + bias) / temperature``; they are made
    ``chunk`` rows at a time and never held for the whole batch.

    Args:
        hidden: ``(tokens, features)``.
        weight: ``(vocab, features)``.
        bias: ``(vocab,)`` or ``None``.
        targets: integer ids, ``(tokens,)``.
        temperature: positive float.
        chunk: rows per slice.

    Returns:
        ``(tokens,)`` log-probabilities.
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, temperature=1.0, chunk=64):
        out = hidden.new_empty(hidden.shape[0])
        lse = hidden.new_empty(hidden.shape[0])
        for lo in range(0, hidden.shape[0], chunk):
            sl = slice(lo, lo + chunk)
            logits = F.linear(hidden[sl], weight, bias) / temperature
            lse[sl] = torch.logsumexp(logits, dim=-1)
            out[sl] = logits.gather(1, targets[sl, None]).squeeze(1) - lse[sl]
        ctx.save_for_backward(hidden, weight, bias, targets, lse)
        ctx.temperature = temperature
        ctx.chunk = chunk
        return out

    @staticmethod
    def backward(ctx, grad_out):
        hidden, weight, bias, targets, lse = ctx.saved_tensors
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        inv_t = 1.0 / ctx.temperature
        for lo in range(0, hidden.shape[0], ctx.chunk):
            sl = slice(lo, lo + ctx.chunk)
            logits = F.linear(hidden[sl], weight, bias) * inv_t
            d = -torch.exp(logits - lse[sl, None])
            d.scatter_add_(1, targets[sl, None], torch.ones_like(d[:, :1]))
            d = d * grad_out[sl, None]
            grad_hidden[sl] = (d @ weight) * inv_t
            grad_weight.add_(d.t() @ hidden[sl], alpha=inv_t)
            if grad_bias is not None:
                grad_bias += d.sum(0)
        return grad_hidden, grad_weight, grad_bias, None, None, None


class SoftMarginTagLossFunction(torch.autograd.Function):
    """Multi-label soft margin loss on ``(batch, tags)`` logits.

    ``-mean_tags(pos_weight * y * logsigmoid(x) + (1 - y) * logsigmoid(-x))``, then
    ``reduction`` ("mean", "sum" or "none") over the batch. ``target`` may be soft, in [0, 1].
    ``pos_weight`` is ``(tags,)`` or ``None``.
    """

    @staticmethod
    def forward(ctx, logits: Tensor, target: Tensor, pos_weight: Optional[Tensor] = None,
                reduction: str = "mean") -> Tensor:
        w = torch.ones_like(logits[0]) if pos_weight is None else pos_weight
        per_tag = -(w * target * F.logsigmoid(logits) + (1 - target) * F.logsigmoid(-logits))
        ctx.save_for_backward(logits, target, w)
        ctx.reduction = reduction
        loss = per_tag.mean(-1)
        if reduction == "mean":
            return loss.mean()
        if reduction == "sum":
            return loss.sum()
        return loss

    @staticmethod
    def backward(ctx, grad):
        logits, target, w = ctx.saved_tensors
        rows, tags = logits.shape
        if ctx.reduction == "mean":
            scale = (grad / rows).expand(rows)
        elif ctx.reduction == "sum":
            scale = grad.expand(rows)
        else:
            scale = grad
        weight = 1 + (w - 1) * target
        d = weight * (torch.sigmoid(logits) - target)
        return d * scale[:, None] / tags, None, None, None


class SoftMarginTagLoss(nn.Module):
    def __init__(self, pos_weight=None, reduction="mean"):
        super().__init__()
        self.register_buffer("pos_weight", pos_weight)
        self.reduction = reduction

    def forward(self, logits, target):
        return SoftMarginTagLossFunction.apply(logits, target, self.pos_weight, self.reduction)


class CosineDistillFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx, student, teacher, mask=None, eps=1e-8):
        ns = student.norm(dim=-1, keepdim=True)
        nt = teacher.norm(dim=-1, keepdim=True)
        s = student / ns.clamp_min(eps)
        t = teacher / nt.clamp_min(eps)
        cos = (s * t).sum(-1)
        m = torch.ones_like(cos) if mask is None else mask.to(cos.dtype)
        count = m.sum().clamp_min(1.0)
        ctx.save_for_backward(s, t, ns, nt, cos, m / count)
        ctx.eps = eps
        return ((1 - cos) * m).sum() / count

    @staticmethod
    def backward(ctx, grad):
        s, t, ns, nt, cos, share = ctx.saved_tensors
        eps = ctx.eps
        g = -(grad * share)[..., None]
        cos = cos[..., None]
        ds = dt = None
        if ctx.needs_input_grad[0]:
            ds = g * (t - torch.where(ns > eps, cos * s, torch.zeros_like(s))) / ns.clamp_min(eps)
        if ctx.needs_input_grad[1]:
            dt = g * (s - torch.where(nt > eps, cos * t, torch.zeros_like(t))) / nt.clamp_min(eps)
        return ds, dt, None, None


class RenyiDivergenceFunction(torch.autograd.Function):
    r"""Rényi divergence of two categorical distributions given by logits.

    .. math:: D_\alpha(p\|q) = \frac{1}{\alpha-1}\log\sum_i p_i^\alpha q_i^{1-\alpha}

    :param p_logits: tensor ``(..., classes)``
    :param q_logits: tensor of the same shape
    :param alpha: order, positive; 1 gives the Kullback-Leibler divergence
    :returns: tensor ``(...)``
    """

    @staticmethod
    def forward(ctx, p_logits, q_logits, alpha: float = 0.5):
        lp = F.log_softmax(p_logits, -1)
        lq = F.log_softmax(q_logits, -1)
        if alpha == 1:
            out = (lp.exp() * (lp - lq)).sum(-1)
        else:
            out = torch.logsumexp(alpha * lp + (1 - alpha) * lq, -1) / (alpha - 1)
        ctx.save_for_backward(lp, lq, out)
        ctx.alpha = alpha
        return out

    @staticmethod
    def backward(ctx, grad):
        lp, lq, out = ctx.saved_tensors
        alpha = ctx.alpha
        p, q = lp.exp(), lq.exp()
        g = grad.unsqueeze(-1)
        if alpha == 1:
            return g * p * (lp - lq - out.unsqueeze(-1)), g * (q - p), None
        tilted = F.softmax(alpha * lp + (1 - alpha) * lq, -1)
        return g * (alpha / (alpha - 1)) * (tilted - p), g * (q - tilted), None
