"""retrieval / ranking / policy objectives"""
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


class RolloutBatch(NamedTuple):
    rewards: torch.Tensor  # [T, B]
    values: torch.Tensor   # [T + 1, B], the last row bootstraps
    dones: torch.Tensor    # [T, B] bool: the episode ended with step t


def _unit(x, eps=1e-12):
    n = x.norm(dim=-1, keepdim=True).clamp_min(eps)
    return x / n, n


def _unit_vjp(g, u, n):
    return (g - u * (g * u).sum(-1, keepdim=True)) / n


class InfoNCE(torch.autograd.Function):
    """In-batch InfoNCE on cosine similarities, with an optional bank of extra negatives.

    q, k [N, D] (row i of k is the positive of row i of q), bank [M, D] or None, taken as a constant,
    logit_scale is a 0-d tensor, the similarities are multiplied by its exp. Mean over the batch.
    """

    @staticmethod
    def forward(ctx, q, k, logit_scale, bank=None):
        qu, qn = _unit(q)
        ku, kn = _unit(k)
        keys = ku if bank is None else torch.cat([ku, _unit(bank)[0]])
        scale = logit_scale.exp()
        sim = qu @ keys.t()
        logp = F.log_softmax(scale * sim, dim=1)
        ctx.save_for_backward(qu, qn, ku, kn, keys, sim, logp, scale)
        return -logp.diagonal().mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        qu, qn, ku, kn, keys, sim, logp, scale = ctx.saved_tensors
        n = qu.shape[0]
        d = logp.exp()
        d.diagonal().sub_(1.0)
        d = d * (grad / n)
        gq = _unit_vjp(scale * (d @ keys), qu, qn)
        gk = _unit_vjp(scale * (d[:, :n].t() @ qu), ku, kn)
        gs = (d * sim).sum() * scale
        return gq, gk, gs, None


class TripletLoss(torch.autograd.Function):
    """anchor / positive / negative [N, D]; soft=True replaces the hinge by softplus.

    swap: use the closer of (anchor, negative) and (positive, negative), as in Balntas et al.
    """

    @staticmethod
    def forward(ctx, anchor, positive, negative, margin=1.0, swap=False, soft=False, eps=1e-8):
        dap = ((anchor - positive).square().sum(1) + eps).sqrt()
        dan = ((anchor - negative).square().sum(1) + eps).sqrt()
        if swap:
            dan = torch.minimum(dan, ((positive - negative).square().sum(1) + eps).sqrt())
        z = dap - dan + margin
        ctx.save_for_backward(anchor, positive, negative, dap, dan, z)
        ctx.soft = soft
        return F.softplus(z).mean() if soft else F.relu(z).mean()

    @staticmethod
    def backward(ctx, grad):
        anchor, positive, negative, dap, dan, z = ctx.saved_tensors
        gz = torch.sigmoid(z) if ctx.soft else (z > 0).to(z.dtype)
        gz = (gz * grad / z.numel()).unsqueeze(1)
        gp = gz * (positive - anchor) / dap.unsqueeze(1)
        gn = gz * (anchor - negative) / dan.unsqueeze(1)
        return -(gp + gn), gp, gn, None, None, None, None


def smooth_hinge(beta=1.0):
    """Builds the pairwise loss  softplus(beta * (margin - (pos - neg))) / beta.

    pos [B, P], neg [B, N], masks bool of the same shapes, weight [B]. Pairs are averaged within
    a user (users without any pair count zero), then weighted and averaged over users.
    """

    class PairwiseSmoothHinge(torch.autograd.Function):
        @staticmethod
        def forward(ctx, pos, neg, weight, pos_mask, neg_mask, margin):
            z = beta * (margin - pos.unsqueeze(2) + neg.unsqueeze(1))
            pairs = pos_mask.unsqueeze(2) & neg_mask.unsqueeze(1)
            count = pairs.sum(dim=(1, 2)).clamp(min=1).to(pos.dtype)
            per_user = (F.softplus(z) / beta * pairs).sum(dim=(1, 2)) / count
            ctx.save_for_backward(z, pairs, count, weight, per_user)
            return (per_user * weight).mean()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            z, pairs, count, weight, per_user = ctx.saved_tensors
            grad = grad / weight.numel()
            slope = torch.sigmoid(z) * pairs * (grad * weight / count)[:, None, None]
            g_weight = grad * per_user if ctx.needs_input_grad[2] else None
            return -slope.sum(2), slope.sum(1), g_weight, None, None, None

    return PairwiseSmoothHinge


class GAE(torch.autograd.Function):
    """Generalised advantages and returns, differentiable (meta-gradient / reward learning)."""

    @staticmethod
    def forward(ctx, rewards, values, dones, gamma, lam):
        live = (~dones).to(rewards.dtype)
        delta = rewards + gamma * live * values[1:] - values[:-1]
        adv = torch.empty_like(rewards)
        run = torch.zeros_like(rewards[0])
        for t in reversed(range(len(rewards))):
            run = delta[t] + gamma * lam * live[t] * run
            adv[t] = run
        ctx.save_for_backward(live)
        ctx.gamma, ctx.lam = gamma, lam
        return adv, adv + values[:-1]

    @staticmethod
    def backward(ctx, g_adv, g_ret):
        live, = ctx.saved_tensors
        g = g_adv + g_ret
        g_delta = torch.empty_like(g)
        run = torch.zeros_like(g[0])
        for t in range(len(g)):
            run = g[t] + ctx.gamma * ctx.lam * live[t] * run
            g_delta[t] = run
        g_values = g_delta.new_zeros(len(g) + 1, *g.shape[1:])
        g_values[1:] = ctx.gamma * live * g_delta
        g_values[:-1] += g_ret - g_delta
        return g_delta, g_values, None, None, None


class WeightedBag(torch.autograd.Function):
    """Embedding bag with per-sample weights.

    table [V, D], ids [L], offsets [B] (start of each bag, bags may be empty), weights [L] or None.
    mode: 'sum' | 'mean' (over the ids of the bag that are no padding) | 'wmean' (over their weights).
    """

    @staticmethod
    def forward(ctx, table, ids, offsets, weights=None, mode='sum', padding_idx=None):
        n_bags = offsets.numel()
        bag = torch.searchsorted(offsets, torch.arange(ids.numel(), device=ids.device), right=True) - 1
        use = torch.ones_like(ids, dtype=table.dtype)
        if padding_idx is not None:
            use = (ids != padding_idx).to(table.dtype)
        w = use if weights is None else weights * use
        rows = table[ids]
        out = table.new_zeros(n_bags, table.shape[1]).index_add_(0, bag, rows * w[:, None])
        norm = table.new_ones(n_bags)
        if mode != 'sum':
            norm = table.new_zeros(n_bags).index_add_(0, bag, use if mode == 'mean' else w)
            norm = torch.where(norm == 0, torch.ones_like(norm), norm)
        out = out / norm[:, None]
        ctx.save_for_backward(rows, ids, bag, use, w, norm, out)
        ctx.mode, ctx.vocab, ctx.has_weights = mode, table.shape[0], weights is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rows, ids, bag, use, w, norm, out = ctx.saved_tensors
        g = (grad / norm[:, None])[bag]
        g_table = g_weights = None
        if ctx.needs_input_grad[0]:
            g_table = g.new_zeros(ctx.vocab, g.shape[1]).index_add_(0, ids, g * w[:, None])
        if ctx.has_weights and ctx.needs_input_grad[3]:
            centred = rows - out[bag] if ctx.mode == 'wmean' else rows
            g_weights = (g * centred).sum(1) * use
        return g_table, None, None, g_weights, None, None


class TwoTower(nn.Module):
    def __init__(self, users, items, dim, mode='wmean'):
        super().__init__()
        self.user = nn.Parameter(torch.randn(users, dim) * 0.1)
        self.item = nn.Parameter(torch.randn(items, dim) * 0.1)
        self.gate = nn.Parameter(torch.zeros(items))
        self.logit_scale = nn.Parameter(torch.tensor(2.6593))
        self.mode = mode

    def forward(self, user_ids, hist_ids, offsets, target_ids, bank: Optional[torch.Tensor] = None):
        w = torch.sigmoid(self.gate[hist_ids])
        h = WeightedBag.apply(self.item, hist_ids, offsets, w, self.mode, 0)
        return InfoNCE.apply(self.user[user_ids] + h, self.item[target_ids], self.logit_scale, bank)


class TripletHead(nn.Module):
    def __init__(self, margin=0.3, swap=False, soft=False):
        super().__init__()
        self.args = (margin, swap, soft)

    def forward(self, a, p, n):
        return TripletLoss.apply(a, p, n, *self.args)


PairLoss = smooth_hinge(beta=2.0)


def rank_loss(scores, labels, valid, user_weight):
    """scores, labels, valid [B, I]: clicked items against the others"""
    return PairLoss.apply(scores, scores, user_weight, (labels > 0) & valid, (labels == 0) & valid, 1.0)


def advantages(batch: RolloutBatch, gamma=0.99, lam=0.95, normalise=False):
    adv, ret = GAE.apply(batch.rewards, batch.values, batch.dones, gamma, lam)
    if normalise:
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    return adv, ret
