"""Losses with analytic gradients.

All take ``reduction`` in {"none", "mean", "sum"} where it makes sense.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _reduce(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"unknown reduction {reduction!r}")


class SigmoidFocalLoss(Function):
    """Binary focal loss on logits (Lin et al., 2017).

    Parameters
    ----------
    logits : Tensor
        Any shape, e.g. (N, K).
    targets : Tensor
        Same shape, 0/1 integers.
    alpha : float
        Weight of the positive class (1 - alpha for the negative one).
    gamma : float
        Focusing exponent.
    reduction : str
    """

    @staticmethod
    def forward(ctx, logits, targets, alpha=0.25, gamma=2.0, reduction="mean"):
        pos = targets == 1
        z = torch.where(pos, logits, -logits)
        a = torch.where(pos, alpha, 1 - alpha).to(logits.dtype)
        loss = -a * torch.sigmoid(-z) ** gamma * F.logsigmoid(z)
        ctx.save_for_backward(logits, targets)
        ctx.hp = (alpha, gamma, reduction)
        return _reduce(loss, reduction)

    @staticmethod
    def backward(ctx, grad):
        logits, targets = ctx.saved_tensors
        alpha, gamma, reduction = ctx.hp
        pos = targets == 1
        sgn = torch.where(pos, 1.0, -1.0).to(logits.dtype)
        a = torch.where(pos, alpha, 1 - alpha).to(logits.dtype)
        z = sgn * logits
        q = torch.sigmoid(-z)
        dz = a * q ** gamma * (gamma * torch.sigmoid(z) * F.logsigmoid(z) - q)
        if reduction == "mean":
            grad = grad / logits.numel()
        return grad * sgn * dz, None, None, None, None


class SmoothedCrossEntropy(Function):
    """Cross entropy with label smoothing.

    :param logits: (N, C) scores
    :param target: (N,) class ids, entries equal to ``ignore_index`` do not count
    :param smoothing: mass spread evenly over the C classes
    :param reduction: ``"mean"`` averages over the counted rows
    """

    @staticmethod
    def forward(ctx, logits, target, smoothing=0.0, ignore_index=-100, reduction="mean"):
        valid = target != ignore_index
        safe = torch.where(valid, target, torch.zeros_like(target))
        logp = torch.log_softmax(logits, dim=-1)
        nll = -logp.gather(1, safe[:, None]).squeeze(1)
        loss = ((1 - smoothing) * nll - smoothing * logp.mean(-1)) * valid
        ctx.save_for_backward(logp, safe, valid)
        ctx.smoothing, ctx.reduction = smoothing, reduction
        if reduction == "mean":
            return loss.sum() / valid.sum().clamp(min=1)
        return _reduce(loss, reduction)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        logp, safe, valid = ctx.saved_tensors
        n, c = logp.shape
        q = torch.full_like(logp, ctx.smoothing / c)
        q.scatter_add_(1, safe[:, None], torch.full((n, 1), 1 - ctx.smoothing, dtype=q.dtype, device=q.device))
        grad = (logp.exp() - q) * valid[:, None]
        if ctx.reduction == "none":
            grad = grad * grad_out[:, None]
        elif ctx.reduction == "sum":
            grad = grad * grad_out
        else:
            grad = grad * (grad_out / n)
        return grad, None, None, None, None


class SoftDice(Function):
    """Mean over the batch of 1 - Dice(p, t).

    probs: (N, *) in [0, 1]; mask: (N, *) bool. ``squared`` uses the V-Net denominator.
    """

    @staticmethod
    def forward(ctx, probs, mask, smooth=1.0, squared=False):
        p = probs.flatten(1)
        t = mask.flatten(1).to(p.dtype)
        num = 2 * (p * t).sum(1) + smooth
        psum = (p * p).sum(1) if squared else p.sum(1)
        den = psum + t.sum(1) + smooth
        ctx.save_for_backward(t, num, den)
        ctx.shape = probs.shape
        return (1 - num / den).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        t, num, den = ctx.saved_tensors
        num, den = num[:, None], den[:, None]
        gp = (num - 2 * t * den) / den ** 2
        return (g / t.shape[0] * gp).view(ctx.shape), None, None, None


class HuberLoss(Function):
    @staticmethod
    def forward(ctx, input, target, delta=1.0, reduction="mean"):
        r = input - target
        ctx.save_for_backward(r)
        ctx.delta = delta
        ctx.reduction = reduction
        a = r.abs()
        return _reduce(torch.where(a <= delta, 0.5 * r * r, delta * (a - 0.5 * delta)), reduction)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (r,) = ctx.saved_tensors
        g = torch.where(r.abs() <= ctx.delta, r, torch.sign(r)) * grad_output
        if ctx.reduction == "mean":
            g = g / r.numel()
        return g, -g, None, None


class DistillKL(Function):
    """T^2 * KL(teacher || student), averaged over the rows.

    Args:
        student: "n c" logits.
        teacher: "n c" logits.
        temperature: softening T.
    """

    @staticmethod
    def forward(ctx, student, teacher, temperature=2.0):
        ls = F.log_softmax(student / temperature, 1)
        lt = F.log_softmax(teacher / temperature, 1)
        kl = (lt.exp() * (lt - ls)).sum(1)
        ctx.save_for_backward(ls, lt, kl)
        ctx.T = temperature
        return temperature ** 2 * kl.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        ls, lt, kl = ctx.saved_tensors
        pt = lt.exp()
        c = g * ctx.T / ls.shape[0]
        gs = c * (ls.exp() - pt) if ctx.needs_input_grad[0] else None
        gt = c * pt * (lt - ls - kl[:, None]) if ctx.needs_input_grad[1] else None
        return gs, gt, None


class InfoNCE(Function):
    """Symmetric CLIP loss between paired embeddings.

    za, zb : (N, D), row i of one is the positive of row i of the other.
    """

    @staticmethod
    def forward(ctx, za, zb, temperature=0.1):
        na = za.norm(dim=1, keepdim=True)
        nb = zb.norm(dim=1, keepdim=True)
        a, b = za / na, zb / nb
        s = a @ b.t() / temperature
        lr, lc = s.log_softmax(1), s.log_softmax(0)
        ctx.save_for_backward(a, b, na, nb, lr, lc)
        ctx.temperature = temperature
        return -0.5 * (lr.diagonal().mean() + lc.diagonal().mean())

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        a, b, na, nb, lr, lc = ctx.saved_tensors
        n = a.shape[0]
        ds = 0.5 * (lr.exp() + lc.exp()) - torch.eye(n, dtype=a.dtype, device=a.device)
        ds = ds * (g / (n * ctx.temperature))
        da = ds @ b
        db = ds @ a
        dza = (da - a * (a * da).sum(1, keepdim=True)) / na
        dzb = (db - b * (b * db).sum(1, keepdim=True)) / nb
        return dza, dzb, None


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0, reduction="mean"):
        super().__init__()
        self.args = (alpha, gamma, reduction)

    def forward(self, logits, targets):
        return SigmoidFocalLoss.apply(logits, targets, *self.args)


def huber_loss(input, target, delta=1.0, reduction="mean"):
    """Huber loss of two tensors of the same shape."""
    return HuberLoss.apply(input, target, delta, reduction)


def dice_loss(logits, mask, smooth=1.0, squared=False):
    return SoftDice.apply(logits.sigmoid(), mask, smooth, squared)


if __name__ == "__main__":
    torch.manual_seed(0)
    logits = torch.randn(8, 5, requires_grad=True)
    labels = torch.tensor([0, 3, -100, 1, 4, -100, 2, 2])
    loss = SmoothedCrossEntropy.apply(logits, labels, 0.1)
    loss.backward()
    print(loss.item(), logits.grad.abs().sum())
    z1, z2 = torch.randn(6, 16), torch.randn(6, 16)
    print(InfoNCE.apply(z1, z2, 0.07).item())
