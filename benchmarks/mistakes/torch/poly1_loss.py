"""Poly-1 loss: cross entropy plus eps * (1 - p_target), batch mean."""
import torch
import torch.nn.functional as F


class Poly1(torch.autograd.Function):
    """logits: (n, c), labels: (n,) ints, eps: float -> scalar"""

    @staticmethod
    def forward(ctx, logits, labels, eps):
        p = logits.softmax(dim=-1)
        onehot = F.one_hot(labels, logits.shape[-1]).to(logits.dtype)
        pt = (p * onehot).sum(-1, keepdim=True)
        ctx.save_for_backward(p, onehot, pt)
        ctx.eps = eps
        return (-pt.log() + eps * (1.0 - pt)).mean()

    @staticmethod
    def backward(ctx, upstream):
        p, onehot, pt = ctx.saved_tensors
        coef = 1.0 - ctx.eps * pt
        dlogits = upstream * coef * (p - onehot) / p.shape[0]
        return dlogits, None, None


def poly1_loss(logits, labels, eps=1.0):
    return Poly1.apply(logits, labels, eps)
