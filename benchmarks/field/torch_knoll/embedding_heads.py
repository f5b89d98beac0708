import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _unit(v, eps=1e-12):
    norm = v.norm(dim=-1, keepdim=True).clamp_min(eps)
    return v / norm, norm


def _unit_backward(g, unit, norm):
    return (g - unit * (g * unit).sum(-1, keepdim=True)) / norm


class SubcenterLogits(Function):
    """scale * max_k cos(x, w[c, k]).  x (B, D), w (C, K, D) -> (B, C)."""

    @staticmethod
    def forward(ctx, x, w, scale=16.0):
        xn, xs = _unit(x)
        wn, ws = _unit(w)
        cos = torch.einsum("bd,ckd->bck", xn, wn)
        best, idx = cos.max(dim=-1)
        ctx.save_for_backward(xn, xs, wn, ws, idx)
        ctx.scale = scale
        return scale * best

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        xn, xs, wn, ws, idx = ctx.saved_tensors
        g_cos = g.new_zeros(*g.shape, wn.shape[1])
        g_cos.scatter_(-1, idx.unsqueeze(-1), ctx.scale * g.unsqueeze(-1))
        g_xn = torch.einsum("bck,ckd->bd", g_cos, wn)
        g_wn = torch.einsum("bck,bd->ckd", g_cos, xn)
        return _unit_backward(g_xn, xn, xs), _unit_backward(g_wn, wn, ws), None


def _softplus_lse(z, keep):
    """log(1 + sum_b exp z) down the columns, and the softmax shares of the kept entries."""
    z = z.masked_fill(~keep, float("-inf"))
    zero = z.new_zeros(1, z.shape[1])
    lse = torch.logsumexp(torch.cat([zero, z]), dim=0)
    return lse, torch.exp(z - lse)


class ProxyAnchorLoss(Function):
    """Proxy-Anchor loss on a (B, C) similarity matrix; rows with label ``ignore_index`` take no part."""

    @staticmethod
    def forward(ctx, sim, labels, alpha=32.0, delta=0.1, ignore_index=-1):
        valid = labels != ignore_index
        hot = labels.clamp_min(0).unsqueeze(1) == torch.arange(sim.shape[1], device=sim.device)
        pos = hot & valid[:, None]
        neg = ~hot & valid[:, None]
        lp, sp = _softplus_lse(-alpha * (sim - delta), pos)
        ln, sn = _softplus_lse(alpha * (sim + delta), neg)
        n_pos = pos.any(0).sum().clamp_min(1)
        ctx.save_for_backward(alpha * (sn / sim.shape[1] - sp / n_pos))
        return lp.sum() / n_pos + ln.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (jac,) = ctx.saved_tensors
        return g * jac, None, None, None, None


def _pair_stats(x, pair):
    diff = x[:, None] - x[None]
    dist = diff.norm(dim=-1)
    mu = (dist * pair).sum() / pair.sum().clamp_min(1)
    return diff, dist, mu


class RelationalDistanceLoss(Function):
    """Distance-wise relational distillation.

    Args:
        student: (N, D) embeddings.
        teacher: (N, E) embeddings of a frozen network; no gradient flows to them.
        valid: (N,) bool, rows that take part (padding and unlabeled rows do not); at least two.
        beta: transition of the Huber penalty on the mean-normalised distances.
    Returns the mean penalty over ordered pairs of distinct valid rows.
    """

    @staticmethod
    def forward(ctx, student, teacher, valid, beta=1.0):
        pair = valid[:, None] & valid[None]
        pair = pair & ~torch.eye(len(valid), dtype=torch.bool, device=valid.device)
        _, ds, ms = _pair_stats(student, pair)
        _, dt, mt = _pair_stats(teacher, pair)
        gap = (ds / ms - dt / mt) * pair
        ctx.save_for_backward(student, pair, gap)
        ctx.beta = beta
        return F.smooth_l1_loss(gap, torch.zeros_like(gap), reduction="sum", beta=beta) / pair.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        student, pair, gap = ctx.saved_tensors
        n = student.shape[0]
        count = n * (n - 1)
        diff, dist, mu = _pair_stats(student, pair)
        slope = torch.where(gap.abs() < ctx.beta, gap / ctx.beta, gap.sign()) * pair / count
        # both the distance and the mean that divides it depend on the student
        pull = (slope * dist).sum() / (mu * count)
        g_dist = g * (slope - pull * pair) / mu
        unit = diff / dist.clamp_min(1e-12).unsqueeze(-1)
        g_pair = g_dist.unsqueeze(-1) * unit
        return g_pair.sum(1) - g_pair.sum(0), None, None, None


class MixtureOfSoftmaxNLL(Function):
    @staticmethod
    def forward(ctx, logits, prior, target, active=None, ignore_index=-100, reduction="mean"):
        if active is None:
            active = torch.ones(prior.shape[-1], dtype=torch.bool, device=prior.device)
        log_pi = F.log_softmax(prior.masked_fill(~active, float("-inf")), dim=-1)
        log_p = F.log_softmax(logits, dim=-1)
        keep = target != ignore_index
        safe = target.masked_fill(~keep, 0)
        at = log_p.gather(-1, safe[:, None, None].expand(-1, logits.shape[1], 1)).squeeze(-1)
        joint = log_pi + at
        ll = torch.logsumexp(joint, dim=-1)
        post = torch.exp(joint - ll[:, None])
        ctx.save_for_backward(log_p, prior, post, safe, keep)
        ctx.reduction = reduction
        nll = -ll * keep
        if reduction == "none":
            return nll
        return nll.sum() if reduction == "sum" else nll.sum() / keep.sum().clamp_min(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        log_p, prior, post, safe, keep = ctx.saved_tensors
        if ctx.reduction == "mean":
            g = g / keep.sum().clamp_min(1)
        g = g * keep
        g_prior = g[:, None] * (prior.softmax(-1) - post)
        delta = log_p.exp()
        delta.scatter_add_(-1, safe[:, None, None].expand(-1, delta.shape[1], 1),
                           -torch.ones_like(delta[..., :1]))
        g_logits = (g[:, None] * post).unsqueeze(-1) * delta
        return g_logits, g_prior, None, None, None, None


class MoSHead(nn.Module):
    def __init__(self, dim, vocab, n_components=4):
        super().__init__()
        self.latent = nn.Linear(dim, n_components * dim)
        self.prior = nn.Linear(dim, n_components, bias=False)
        self.decoder = nn.Linear(dim, vocab)
        self.k = n_components

    def forward(self, h, target, active=None):
        z = torch.tanh(self.latent(h)).view(-1, self.k, h.shape[-1])
        return MixtureOfSoftmaxNLL.apply(self.decoder(z), self.prior(h), target, active)
