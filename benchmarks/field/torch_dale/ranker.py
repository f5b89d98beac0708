import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SpladeMaxPool(Function):
    """log(1 + relu(.)) term weights, maximum over the unmasked tokens: (B, L, V), bool (B, L) -> (B, V)."""

    @staticmethod
    def forward(ctx, logits, mask):
        filled = logits.masked_fill(~mask[..., None], float("-inf"))
        top, where = filled.max(dim=1)
        out = torch.log1p(top.clamp(min=0))
        # (B, L, V) is by far the largest array of the model; only (B, V) things are kept
        ctx.save_for_backward(out, where)
        ctx.length = logits.shape[1]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        out, where = ctx.saved_tensors
        d = torch.where(out > 0, g * torch.exp(-out), torch.zeros_like(g))
        grad = g.new_zeros(g.shape[0], ctx.length, g.shape[1])
        grad.scatter_(1, where[:, None, :], d[:, None, :])
        return grad, None


class PropensityWeightedCE(Function):
    """Cross entropy over clicked items, weighted with inverse exposure propensities.

    Every row ``i`` with ``labels[i] != ignore_index`` contributes
    ``w_i * -log softmax(logits_i)[labels_i]`` with ``w_i = 1 / max(propensity_i, floor)``.

    Args:
        logits (Tensor): ``(N, V)`` scores.
        labels (LongTensor): ``(N,)`` clicked items; rows labelled ``ignore_index`` are left out.
        propensity (Tensor): ``(N,)`` exposure probabilities in (0, 1]. They are data: no gradient is
            propagated to them.
        floor (float): lower limit of the propensities. Default: 0.01.
        reduction (str): ``"sum"``, or ``"mean"`` for the self-normalised estimate, that is the weighted
            sum divided by the sum of the weights of the contributing rows.
        ignore_index (int): Default: -100.

    Returns:
        Tensor: scalar loss.
    """

    @staticmethod
    def forward(ctx, logits, labels, propensity, floor=0.01, reduction="mean", ignore_index=-100):
        keep = labels != ignore_index
        w = 1.0 / propensity.clamp(min=floor)
        safe = torch.where(keep, labels, torch.zeros_like(labels))
        logp = torch.log_softmax(logits, -1)
        nll = -logp.gather(1, safe[:, None])[:, 0] * keep
        loss = (w * nll).sum()
        if reduction == "mean":
            loss = loss / (w * keep).sum()
        ctx.save_for_backward(logp, safe, keep, w)
        ctx.reduction = reduction
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        logp, safe, keep, w = ctx.saved_tensors
        scale = w / w.sum() if ctx.reduction == "mean" else w
        grad = logp.exp()
        grad.scatter_add_(1, safe[:, None], -torch.ones_like(grad[:, :1]))
        grad *= (g * scale * keep)[:, None]
        return grad, None, None, None, None, None


class SvdPlusPlusScore(Function):

    @staticmethod
    def forward(ctx, P, Q, Y, bu, bi, mu, user, item, hist):
        seen = hist >= 0  # -1 pads
        norm = seen.sum(1).clamp(min=1).to(P.dtype).rsqrt()
        h = hist.clamp(min=0)
        implicit = (Y[h] * seen[..., None]).sum(1) * norm[:, None]
        z = P[user] + implicit
        q = Q[item]
        ctx.save_for_backward(z, q, norm, seen, h, user, item)
        ctx.sizes = (P.shape, Q.shape, Y.shape)
        return mu + bu[user] + bi[item] + (z * q).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        z, q, norm, seen, h, user, item = ctx.saved_tensors
        sp, sq, sy = ctx.sizes
        gz = g[:, None] * q
        dP = g.new_zeros(sp).index_add_(0, user, gz)
        dQ = g.new_zeros(sq).index_add_(0, item, g[:, None] * z)
        rows = (gz * norm[:, None])[:, None, :] * seen[..., None]
        dY = g.new_zeros(sy).index_add_(0, h.reshape(-1), rows.reshape(-1, sy[1]))
        dbu = g.new_zeros(sp[0]).index_add_(0, user, g)
        dbi = g.new_zeros(sq[0]).index_add_(0, item, g)
        return dP, dQ, dY, dbu, dbi, g.sum(), None, None, None


class SvdPlusPlus(nn.Module):
    def __init__(self, users, items, dim=32, mean=3.5):
        super().__init__()
        self.P = nn.Parameter(0.1 * torch.randn(users, dim))
        self.Q = nn.Parameter(0.1 * torch.randn(items, dim))
        self.Y = nn.Parameter(0.1 * torch.randn(items, dim))
        self.bu = nn.Parameter(torch.zeros(users))
        self.bi = nn.Parameter(torch.zeros(items))
        self.mu = nn.Parameter(torch.tensor(float(mean)))

    def forward(self, user, item, hist):
        return SvdPlusPlusScore.apply(self.P, self.Q, self.Y, self.bu, self.bi, self.mu, user, item, hist)
