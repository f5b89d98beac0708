import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function


class GatedBagAttention(Function):
    @staticmethod
    def forward(ctx, h, V, U, w, valid):
        t, s = torch.tanh(h @ V), torch.sigmoid(h @ U)
        e = ((t * s) @ w).masked_fill(~valid, float("-inf"))
        a = e.softmax(1)
        z = torch.einsum("bn,bnd->bd", a, h)
        ctx.save_for_backward(h, V, U, w, t, s, a)
        return z, a

    @staticmethod
    def backward(ctx, gz, ga):
        h, V, U, w, t, s, a = ctx.saved_tensors
        ga = ga + torch.einsum("bd,bnd->bn", gz, h)
        ge = a * (ga - (a * ga).sum(1, keepdim=True))
        gw = torch.einsum("bn,bnk->k", ge, t * s)
        gp = ge[..., None] * w
        gt = gp * s * (1 - t * t)
        gs = gp * t * s * (1 - s)
        gh = a[..., None] * gz[:, None] + gt @ V.T + gs @ U.T
        gV = torch.einsum("bnd,bnk->dk", h, gt)
        gU = torch.einsum("bnd,bnk->dk", h, gs)
        return gh, gV, gU, gw, None


class TopPatches(Function):
    # mean of the k best patches of each class; short bags use what they have
    @staticmethod
    def forward(ctx, logits, n_patches, k):
        B, N, C = logits.shape
        k = min(k, N)
        live = torch.arange(N, device=logits.device)[None, :] < n_patches[:, None]
        best, where = logits.masked_fill(~live[..., None], float("-inf")).topk(k, dim=1)
        used = torch.arange(k, device=logits.device)[None, :] < n_patches[:, None]
        best = best.masked_fill(~used[..., None], 0.0)
        count = n_patches.clamp(max=k)[:, None].to(logits.dtype)
        ctx.save_for_backward(where, used)
        ctx.k, ctx.N = k, N
        return best.sum(1) / count

    @staticmethod
    def backward(ctx, g):
        where, used = ctx.saved_tensors
        share = (g / ctx.k)[:, None, :] * used[..., None]
        out = g.new_zeros(g.shape[0], ctx.N, g.shape[1])
        return out.scatter(1, where, share), None, None


class CriticalAttention(Function):
    # q: (B, N, K) patch queries, top: (B, C) index of the critical patch of each class
    @staticmethod
    def forward(ctx, q, x, top):
        rows = torch.arange(q.shape[0], device=q.device)[:, None]
        scale = 1.0 / math.sqrt(q.shape[-1])
        crit = q[rows, top]
        a = torch.softmax(scale * torch.einsum("bnk,bck->bnc", q, crit), dim=1)
        ctx.save_for_backward(q, x, top, crit, a)
        ctx.scale = scale
        return torch.einsum("bnc,bnd->bcd", a, x)

    @staticmethod
    def backward(ctx, g):
        q, x, top, crit, a = ctx.saved_tensors
        rows = torch.arange(q.shape[0], device=q.device)[:, None]
        gx = torch.einsum("bnc,bcd->bnd", a, g)
        ga = torch.einsum("bcd,bnd->bnc", g, x)
        gs = ctx.scale * a * (ga - (a * ga).sum(1, keepdim=True))
        gq = torch.einsum("bnc,bck->bnk", gs, crit)
        gq[rows, top] += torch.einsum("bnc,bnk->bck", gs, q)
        return gq, gx, None


class PartialLabelBCE(Function):
    # y in {0, 1}, or -1 where the pathologist gave no answer
    @staticmethod
    def forward(ctx, logits, y, pos_weight, reduction="mean"):
        known = y >= 0
        yf = y.clamp(min=0).to(logits.dtype)
        pos = yf * F.softplus(-logits)
        neg = (1 - yf) * F.softplus(logits)
        loss = torch.where(known, pos_weight * pos + neg, torch.zeros_like(logits))
        n = known.sum().clamp(min=1)
        ctx.save_for_backward(logits, yf, pos_weight, known, n)
        ctx.reduction = reduction
        if reduction == "none":
            return loss
        if reduction == "bag":
            return loss.sum(1)
        return loss.sum() / n if reduction == "mean" else loss.sum()

    @staticmethod
    def backward(ctx, g):
        logits, yf, pos_weight, known, n = ctx.saved_tensors
        if ctx.reduction == "mean":
            g = g / n
        elif ctx.reduction == "bag":
            g = g[:, None]
        g = g * known.to(logits.dtype)
        p = torch.sigmoid(logits)
        gl = gw = None
        if ctx.needs_input_grad[0]:
            gl = g * ((1 - yf) * p - pos_weight * yf * (1 - p))
        if ctx.needs_input_grad[2]:
            gw = (g * yf * F.softplus(-logits)).sum(0)
        return gl, None, gw, None


class DualStreamBag(nn.Module):
    def __init__(self, dim=384, hidden=128, classes=5, k=8):
        super().__init__()
        self.V = nn.Parameter(torch.randn(dim, hidden) / dim**0.5)
        self.U = nn.Parameter(torch.randn(dim, hidden) / dim**0.5)
        self.w = nn.Parameter(torch.randn(hidden) / hidden**0.5)
        self.patch = nn.Linear(dim, classes)
        self.query = nn.Linear(dim, hidden)
        self.bag = nn.Linear(dim, classes)
        self.mix = nn.Parameter(torch.randn(classes, dim) / dim**0.5)
        self.log_pos = nn.Parameter(torch.zeros(classes))
        self.k = k

    def forward(self, h, n_patches):
        live = torch.arange(h.shape[1], device=h.device)[None] < n_patches[:, None]
        h = h * live[..., None]
        z, att = GatedBagAttention.apply(h, self.V, self.U, self.w, live)
        logits = self.patch(h)
        inst = TopPatches.apply(logits, n_patches, self.k)
        top = logits.masked_fill(~live[..., None], float("-inf")).argmax(1)
        stream = CriticalAttention.apply(self.query(h), h, top)
        return self.bag(z) + inst + (stream * self.mix).sum(-1), att

    def loss(self, h, n_patches, y):
        out, att = self(h, n_patches)
        ent = -(att * (att + 1e-9).log()).sum(1).mean()
        return PartialLabelBCE.apply(out, y, self.log_pos.exp(), "mean") + 1e-3 * ent


def toy_epoch(model, opt, slides=4, patches=60, dim=384, classes=5):
    h = torch.randn(slides, patches, dim)
    n = torch.randint(20, patches + 1, (slides,))
    y = torch.randint(-1, 2, (slides, classes))
    opt.zero_grad()
    loss = model.loss(h, n, y)
    loss.backward()
    opt.step()
    return loss.item()
