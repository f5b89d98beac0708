"""Sequential recommendation: towers, mixers, experts and listwise losses.

    history ids --BasketEncoder--> baskets --LinearAttentionMixer--> --SwitchFeedForward--> user vector
    user vector x item vector --> in-batch retrieval loss;   re-ranker scores --> listwise loss
"""
import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class SeqRecConfig:
    n_items: int = 10_000
    dim: int = 64
    heads: int = 4
    n_experts: int = 8
    expert_hidden: int = 128
    top_k: int = 1
    padding_idx: int = 0
    temperature: float = 1.0
    reduction: str = "mean"


# ---- baskets ---------------------------------------------------------------

class WeightedBasket(torch.autograd.Function):
    """Weighted mean of the embeddings of a basket.

    table (n_items, dim), ids (baskets, slots) long, weights (baskets, slots) positive (e.g. quantities).
    Slots that hold ``padding_idx`` are left out; an empty basket gives zeros.
    """

    @staticmethod
    def forward(ctx, table, ids, weights, padding_idx=0):
        w = weights * (ids != padding_idx).to(weights.dtype)
        total = w.sum(1, keepdim=True)
        total = torch.where(total > 0, total, torch.ones_like(total))
        share = w / total
        out = torch.einsum("bs,bsd->bd", share, table[ids])
        ctx.save_for_backward(table, ids, share, total, out)
        ctx.padding_idx = padding_idx
        return out

    @staticmethod
    def backward(ctx, grad):
        table, ids, share, total, out = ctx.saved_tensors
        d_table = d_weights = None
        if ctx.needs_input_grad[0]:
            per_slot = share.unsqueeze(-1) * grad.unsqueeze(1)
            d_table = torch.zeros_like(table)
            d_table.index_add_(0, ids.reshape(-1), per_slot.reshape(-1, table.shape[1]))
        if ctx.needs_input_grad[2]:
            rel = table[ids] - out.unsqueeze(1)
            d_weights = torch.einsum("bsd,bd->bs", rel, grad) / total
            d_weights = d_weights.masked_fill(ids == ctx.padding_idx, 0.0)
        return d_table, None, d_weights, None


class BasketEncoder(nn.Module):
    def __init__(self, cfg: SeqRecConfig):
        super().__init__()
        self.cfg = cfg
        self.table = nn.Parameter(torch.randn(cfg.n_items, cfg.dim) / math.sqrt(cfg.dim))

    def forward(self, ids, quantities=None):
        if quantities is None:
            quantities = torch.ones(ids.shape, dtype=self.table.dtype, device=ids.device)
        lead = ids.shape[:-1]
        flat = WeightedBasket.apply(
            self.table, ids.flatten(0, -2), quantities.flatten(0, -2), self.cfg.padding_idx
        )
        return flat.view(*lead, -1)


# ---- retrieval loss --------------------------------------------------------

class InBatchRetrieval(torch.autograd.Function):
    """Softmax cross entropy with the other items of the batch as negatives, mean over the batch.

    Shapes:
        users: (batch, dim)
        items: (batch, dim), row i is what user i chose
        log_q: (batch,) log sampling probability of each item
        item_ids: (batch,) long; another row with the same id as the positive is no negative and is left out
    """

    @staticmethod
    def forward(ctx, users, items, log_q, item_ids, temperature=1.0):
        logits = users @ items.t() / temperature - log_q
        same = item_ids[:, None] == item_ids[None, :]
        same.fill_diagonal_(False)
        log_z = torch.logsumexp(logits.masked_fill(same, float("-inf")), dim=1)
        ctx.save_for_backward(users, items, logits)
        ctx.temperature = temperature
        return (log_z - logits.diagonal()).mean()

    @staticmethod
    def backward(ctx, grad):
        users, items, logits = ctx.saved_tensors
        n = logits.shape[0]
        d_logits = torch.softmax(logits, dim=1)
        d_logits.diagonal().sub_(1.0)
        d_logits.mul_(grad / n)
        d_users = d_logits @ items / ctx.temperature
        d_items = d_logits.t() @ users / ctx.temperature
        return d_users, d_items, -d_logits.sum(0), None, None


def retrieval_loss(users, items, item_ids, item_counts, cfg: SeqRecConfig):
    log_q = torch.log(item_counts / item_counts.sum())
    return InBatchRetrieval.apply(users, items, log_q, item_ids, cfg.temperature)


# ---- causal linear attention -----------------------------------------------

def _phi(x):
    return F.elu(x) + 1.0


def _phi_slope(x):
    return torch.where(x > 0, torch.ones_like(x), torch.exp(x))


def _suffix_sum(x, dim):
    return x.flip(dim).cumsum(dim).flip(dim)


class CausalLinearAttention(torch.autograd.Function):

    @staticmethod
    def forward(ctx, q, k, v, eps: float = 1e-6):
        # q, k: (batch, heads, time, d);  v: (batch, heads, time, m)
        fq, fk = _phi(q), _phi(k)
        kv = torch.cumsum(fk.unsqueeze(-1) * v.unsqueeze(-2), dim=2)
        ksum = torch.cumsum(fk, dim=2)
        norm = (fq * ksum).sum(-1, keepdim=True) + eps
        out = torch.einsum("bhtd,bhtdm->bhtm", fq, kv) / norm
        ctx.save_for_backward(q, k, v, norm, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, norm, out = ctx.saved_tensors
        fq, fk = _phi(q), _phi(k)
        kv = torch.cumsum(fk.unsqueeze(-1) * v.unsqueeze(-2), dim=2)
        ksum = torch.cumsum(fk, dim=2)
        gn = grad / norm
        gz = -(gn * out).sum(-1, keepdim=True)
        d_fq = torch.einsum("bhtm,bhtdm->bhtd", gn, kv) + gz * ksum
        back_kv = _suffix_sum(fq.unsqueeze(-1) * gn.unsqueeze(-2), 2)
        back_k = _suffix_sum(fq * gz, 2)
        d_fk = torch.einsum("bhtdm,bhtm->bhtd", back_kv, v) + back_k
        d_v = torch.einsum("bhtdm,bhtd->bhtm", back_kv, fk)
        return d_fq * _phi_slope(q), d_fk * _phi_slope(k), d_v, None


class LinearAttentionMixer(nn.Module):
    def __init__(self, cfg: SeqRecConfig):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = CausalLinearAttention.apply(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(b, t, d))


# ---- experts ---------------------------------------------------------------

class SwitchFeedForward(nn.Module):
    """Each token goes to its ``top_k`` most probable experts; outputs are scaled by the router probability."""

    class Route(torch.autograd.Function):
        """tokens (n, dim), probs (n, experts), w_in (experts, dim, hidden), w_out (experts, hidden, dim)."""

        @staticmethod
        def forward(ctx, tokens, probs, w_in, w_out, top_k=1):
            gate, expert = torch.topk(probs, top_k, dim=1)
            out = torch.zeros_like(tokens)
            for e in range(w_in.shape[0]):
                row, slot = torch.where(expert == e)
                hidden = F.silu(tokens[row] @ w_in[e])
                out.index_add_(0, row, gate[row, slot].unsqueeze(1) * (hidden @ w_out[e]))
            ctx.save_for_backward(tokens, probs, w_in, w_out, gate, expert)
            return out

        @staticmethod
        def backward(ctx, grad):
            tokens, probs, w_in, w_out, gate, expert = ctx.saved_tensors
            d_tokens = torch.zeros_like(tokens)
            d_probs = torch.zeros_like(probs)
            d_in, d_out = torch.zeros_like(w_in), torch.zeros_like(w_out)
            for e in range(w_in.shape[0]):
                row, slot = torch.where(expert == e)
                if row.numel() == 0:
                    continue
                x, g = tokens[row], grad[row]
                pre = x @ w_in[e]
                sig = torch.sigmoid(pre)
                hidden = pre * sig
                d_probs[row, e] = (g * (hidden @ w_out[e])).sum(1)
                g = g * gate[row, slot].unsqueeze(1)
                d_out[e] = hidden.t() @ g
                d_pre = (g @ w_out[e].t()) * sig * (1.0 + pre * (1.0 - sig))
                d_in[e] = x.t() @ d_pre
                d_tokens[row] = d_pre @ w_in[e].t()
            return d_tokens, d_probs, d_in, d_out, None

    def __init__(self, cfg: SeqRecConfig):
        super().__init__()
        self.top_k = cfg.top_k
        self.router = nn.Linear(cfg.dim, cfg.n_experts, bias=False)
        self.w_in = nn.Parameter(torch.randn(cfg.n_experts, cfg.dim, cfg.expert_hidden) / math.sqrt(cfg.dim))
        self.w_out = nn.Parameter(torch.zeros(cfg.n_experts, cfg.expert_hidden, cfg.dim))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probs = torch.softmax(self.router(flat), dim=-1)
        return x + self.Route.apply(flat, probs, self.w_in, self.w_out, self.top_k).view_as(x)


# ---- listwise loss ---------------------------------------------------------

class ListMLE(torch.autograd.Function):
    """Plackett-Luce negative log likelihood of the observed order, with a discount per position.

    :param scores: (lists, positions), columns in the observed order, best first
    :param lengths: (lists,) long, valid positions of each list; the rest is padding
    :param discount: (positions,)
    :param reduction: ``"mean"`` over lists or ``"sum"``
    """

    @staticmethod
    def forward(ctx, scores, lengths, discount, reduction="mean"):
        valid = torch.arange(scores.shape[1], device=scores.device)[None, :] < lengths[:, None]
        # a huge negative number: an infinite one makes nan in logcumsumexp of all-padding suffixes
        masked = scores.masked_fill(~valid, -1e30)
        log_tail = torch.logcumsumexp(masked.flip(1), dim=1).flip(1)
        each = torch.where(valid, log_tail - scores, torch.zeros_like(scores))
        scale = 1.0 / scores.shape[0] if reduction == "mean" else 1.0
        ctx.save_for_backward(masked, log_tail, valid, each, discount)
        ctx.scale = scale
        return scale * (each * discount).sum()

    @staticmethod
    def backward(ctx, grad):
        masked, log_tail, valid, each, discount = ctx.saved_tensors
        lead = (discount * valid).unsqueeze(1)  # (lists, 1, stage)
        after = torch.ones(masked.shape[1], masked.shape[1], dtype=torch.bool, device=masked.device).tril()
        ok = after & valid.unsqueeze(1) & valid.unsqueeze(2)
        gap = (masked.unsqueeze(2) - log_tail.unsqueeze(1)).masked_fill(~ok, float("-inf"))
        d_scores = (gap.exp() * lead).sum(2) - discount * valid
        g = grad * ctx.scale
        return g * d_scores, None, g * each.sum(0), None


def rerank_loss(scores, lengths, cfg: SeqRecConfig, discount: Optional[torch.Tensor] = None):
    if discount is None:
        discount = 1.0 / torch.log2(torch.arange(scores.shape[1], dtype=scores.dtype, device=scores.device) + 2.0)
    return ListMLE.apply(scores, lengths, discount, cfg.reduction)
