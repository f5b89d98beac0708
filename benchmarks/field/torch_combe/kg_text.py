from typing import Optional, Sequence, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _halves(x):
    d = x.shape[-1] // 2
    return x[..., :d], x[..., d:]


class ComplExScore(Function):
    # tables store [real | imag]

    @staticmethod
    def forward(ctx, entity, relation, triples):
        h, r, t = triples.unbind(-1)
        eh, er, et = entity[h], relation[r], entity[t]
        ctx.save_for_backward(eh, er, et, triples)
        ctx.n_entity, ctx.n_relation = entity.shape[0], relation.shape[0]
        (hr, hi), (rr, ri), (tr, ti) = _halves(eh), _halves(er), _halves(et)
        return (rr * (hr * tr + hi * ti) + ri * (hr * ti - hi * tr)).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        eh, er, et, triples = ctx.saved_tensors
        h, r, t = triples.unbind(-1)
        (hr, hi), (rr, ri), (tr, ti) = _halves(eh), _halves(er), _halves(et)
        g = grad.unsqueeze(-1)
        g_head = g * torch.cat([rr * tr + ri * ti, rr * ti - ri * tr], -1)
        g_tail = g * torch.cat([rr * hr - ri * hi, rr * hi + ri * hr], -1)
        g_rel = g * torch.cat([hr * tr + hi * ti, hr * ti - hi * tr], -1)
        d_ent = eh.new_zeros(ctx.n_entity, eh.shape[-1])
        d_ent.index_put_((h,), g_head, accumulate=True)
        d_ent.index_put_((t,), g_tail, accumulate=True)
        d_rel = er.new_zeros(ctx.n_relation, er.shape[-1])
        d_rel.index_put_((r,), g_rel)
        return d_ent, d_rel, None


class ComplEx(nn.Module):
    def __init__(self, n_entity: int, n_relation: int, dim: int = 64):
        super().__init__()
        self.entity = nn.Parameter(torch.randn(n_entity, 2 * dim) * 0.1)
        self.relation = nn.Parameter(torch.randn(n_relation, 2 * dim) * 0.1)

    def forward(self, triples):
        return ComplExScore.apply(self.entity, self.relation, triples)


class MatryoshkaCE(Function):
    """Weighted sum of cross entropies over nested prefixes `dims` of the embedding; logits are rebuilt in backward."""

    @staticmethod
    def forward(
        ctx,
        x: torch.Tensor,
        weight: torch.Tensor,
        log_scale: torch.Tensor,
        labels: torch.Tensor,
        dims: Tuple[int, ...],
        level_weights: Optional[Sequence[float]] = None,
        ignore_index: int = -100,
    ) -> torch.Tensor:
        if level_weights is None:
            level_weights = [1.0] * len(dims)
        keep = labels != ignore_index
        safe = labels.masked_fill(~keep, 0)
        count = keep.sum().clamp(min=1)
        scale = log_scale.exp()
        loss = x.new_zeros(())
        lses = []
        for m, w in zip(dims, level_weights):
            logits = scale * (x[:, :m] @ weight[:, :m].t())
            lse = logits.logsumexp(-1)
            picked = logits.gather(1, safe[:, None])[:, 0]
            loss = loss + w * ((lse - picked) * keep).sum() / count
            lses.append(lse)
        ctx.save_for_backward(x, weight, log_scale, safe, keep, count, *lses)
        ctx.dims, ctx.level_weights = tuple(dims), tuple(level_weights)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight, log_scale, safe, keep, count, *lses = ctx.saved_tensors
        scale = log_scale.exp()
        gx, gw = torch.zeros_like(x), torch.zeros_like(weight)
        gs = torch.zeros_like(log_scale)
        rows = torch.arange(x.shape[0], device=x.device)
        per_row = keep.to(x.dtype) / count
        for m, w, lse in zip(ctx.dims, ctx.level_weights, lses):
            xm, wm = x[:, :m], weight[:, :m]
            logits = scale * (xm @ wm.t())
            p = torch.exp(logits - lse[:, None])
            p[rows, safe] -= 1.0
            p *= (grad * w * per_row)[:, None]
            gs += (p * logits).sum()
            p *= scale
            gx[:, :m] += p @ wm
            gw[:, :m] += p.t() @ xm
        return gx, gw, gs, None, None, None, None


class KMaxPool(Function):
    @staticmethod
    def forward(x, lengths, k):
        # x (B, C, T); keeps time order, zero-pads rows shorter than k
        B, C, T = x.shape
        if T < k:
            x = F.pad(x, (0, k - T))
            T = k
        valid = torch.arange(T, device=x.device)[None, None] < lengths[:, None, None]
        idx = x.masked_fill(~valid, float("-inf")).topk(k, dim=-1).indices
        idx = idx.masked_fill(~valid.expand(B, C, T).gather(-1, idx), T).sort(-1).values
        real = idx < T
        idx = idx.masked_fill(~real, 0)
        return x.gather(-1, idx) * real, idx, real

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, _, _ = inputs
        _, idx, real = output
        ctx.mark_non_differentiable(idx, real)
        ctx.save_for_backward(idx, real)
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx, grad, _g_idx, _g_real):
        idx, real = ctx.saved_tensors
        out = grad.new_zeros(ctx.shape)
        return out.scatter_add_(-1, idx, grad * real), None, None


def encode(emb: nn.Embedding, conv: nn.Conv1d, tokens, lengths, k=3):
    h = conv(emb(tokens).transpose(1, 2))
    return KMaxPool.apply(h, lengths, k)[0].flatten(1)
