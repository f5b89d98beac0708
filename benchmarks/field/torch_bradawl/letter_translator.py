"""Building blocks of a small translator for digitised 19th-century letters.

The model is a causal decoder with polynomial-kernel attention, a gated carry layer on top that may skip steps, and a
cross entropy on length-normalised logits, which keeps the confidences usable on smudged scans.
"""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn
from torch.autograd import Function


@dataclass(frozen=True)
class DecoderSize:
    width: int = 64
    heads: int = 4
    degree: int = 2
    vocab: int = 512

    @property
    def head_dim(self):
        return self.width // self.heads


class DegreeAttention(Function):
    """Causal attention with weights (q . k / sqrt(d)) ** degree, normalised over the visible keys.

    Parameters
    ----------
    q, k : Tensor [batch, heads, steps, dim]
    v : Tensor [batch, heads, steps, value_dim]
    degree : int
        Even, so that the weights are not negative; 2 and 4 are in use.
    eps : float
        Added to the normaliser.
    """

    @staticmethod
    def forward(ctx, q, k, v, degree=2, eps=1e-6):
        scale = q.shape[-1] ** -0.5
        steps = q.shape[-2]
        seen = torch.ones(steps, steps, dtype=torch.bool, device=q.device).tril()
        s = torch.matmul(q, k.transpose(-1, -2)) * scale
        s = s * seen
        w = s**degree
        norm = w.sum(-1, keepdim=True) + eps
        out = torch.matmul(w, v) / norm
        ctx.save_for_backward(q, k, v, s, norm, out)
        ctx.degree, ctx.scale = degree, scale
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, s, norm, out = ctx.saved_tensors
        gn = g / norm
        g_v = torch.matmul((s**ctx.degree).transpose(-1, -2), gn)
        g_w = torch.matmul(gn, v.transpose(-1, -2)) - (gn * out).sum(-1, keepdim=True)
        g_s = g_w * ctx.degree * s * ctx.scale
        return torch.matmul(g_s, k), torch.matmul(g_s.transpose(-1, -2), q), g_v, None, None


class ZoneoutCarry(Function):
    """h[t] = a[t] * h[t-1] + (1 - a[t]) * x[t], except where keep[t]: there h[t] = h[t-1].

    x, a: [time, batch, dim];  h0: [dim], shared by the batch;  keep: bool [time, batch].
    Gives all the states in the order of x and the state after the last step taken. With reverse=True the
    recurrence runs from the end of the sequence towards its start.
    """

    @staticmethod
    def forward(ctx, x, a, h0, keep, reverse):
        order = range(x.shape[0])
        if reverse:
            order = reversed(order)
        h = h0.expand(x.shape[1], -1)
        states, previous = [None] * x.shape[0], [None] * x.shape[0]
        for t in order:
            previous[t] = h
            h = torch.where(keep[t][:, None], h, a[t] * h + (1 - a[t]) * x[t])
            states[t] = h
        ctx.save_for_backward(x, a, keep, torch.stack(previous))
        ctx.reverse = reverse
        return torch.stack(states), h.clone()

    @staticmethod
    def backward(ctx, g_states, g_last):
        x, a, keep, previous = ctx.saved_tensors
        gx, ga = torch.zeros_like(x), torch.zeros_like(a)
        order = range(x.shape[0]) if ctx.reverse else range(x.shape[0] - 1, -1, -1)
        carry = g_last
        for t in order:
            carry = carry + g_states[t]
            step = torch.where(keep[t][:, None], torch.zeros_like(carry), carry)
            gx[t] = step * (1 - a[t])
            ga[t] = step * (previous[t] - x[t])
            carry = torch.where(keep[t][:, None], carry, carry * a[t])
        return gx, ga, carry.sum(0), None, None


class LengthFreeCE(Function):
    """Cross entropy of z / (tau * (|z| + eps)), the direction of the logits only.

    Shapes: z [tokens, vocab], target [tokens], weight [vocab] or None: fixed class weights, not trained.
    ``ignore`` marks padded targets.
    reduction is "mean" (weighted by the weight of the target class, as in torch), "sum" or "none".
    If everything is padding, the mean is 0.
    """

    @staticmethod
    def forward(ctx, z, target, weight, tau, ignore, reduction):
        eps = 1e-7
        length = torch.linalg.vector_norm(z, dim=-1, keepdim=True) + eps
        logp = torch.log_softmax(z / (tau * length), dim=-1)
        real = target != ignore
        safe = torch.where(real, target, torch.zeros_like(target))
        per = real.to(z.dtype)
        if weight is not None:
            per = per * weight[safe]
        if reduction == "mean":
            total = per.sum()
            per = per / torch.where(total > 0, total, torch.ones_like(total))
        losses = -per * logp.gather(1, safe[:, None])[:, 0]
        ctx.save_for_backward(z, length, logp, safe, per)
        ctx.tau, ctx.eps, ctx.reduction = tau, eps, reduction
        return losses if reduction == "none" else losses.sum()

    @staticmethod
    def backward(ctx, g):
        z, length, logp, safe, per = ctx.saved_tensors
        g_u = logp.exp()
        g_u.scatter_add_(1, safe[:, None], -torch.ones_like(g_u[:, :1]))
        g_u = g_u * (per * g)[:, None] / ctx.tau
        norm = length - ctx.eps
        unit = torch.where(norm > 0, z / norm.clamp(min=1e-30), torch.zeros_like(z))
        g_z = g_u / length - unit * (g_u * z).sum(-1, keepdim=True) / length**2
        return g_z, None, None, None, None, None


def length_free_ce(z: Tensor, target: Tensor, weight: Optional[Tensor] = None, tau: float = 0.04,
                   ignore: int = -100, reduction: str = "mean") -> Tensor:
    return LengthFreeCE.apply(z, target, weight, tau, ignore, reduction)


class DecoderBlock(nn.Module):
    def __init__(self, size: DecoderSize):
        super().__init__()
        self.size = size
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.gate = nn.Linear(size.width, size.width)
        self.start = nn.Parameter(torch.zeros(size.width))
        self.out = nn.Linear(size.width, size.vocab)

    def forward(self, x, pad):
        """x [batch, steps, width], pad bool [batch, steps]"""
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.size.heads, -1).permute(2, 0, 3, 1, 4)
        y = DegreeAttention.apply(q, k, v, self.size.degree).transpose(1, 2).reshape(b, t, -1)
        y = y.transpose(0, 1)
        states, _ = ZoneoutCarry.apply(y, torch.sigmoid(self.gate(y)), self.start, pad.t(), False)
        return self.out(states).transpose(0, 1)
