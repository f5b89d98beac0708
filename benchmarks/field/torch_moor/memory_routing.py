"""Attention without softmax, product-key memories and the click model's interaction term."""
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class StickBreakingWeights(torch.autograd.Function):
    """Stick-breaking weights over the last axis, newest key first.

    w[k] = sigmoid(z[k]) * prod_{j > k} (1 - sigmoid(z[j]))

    Masked-out keys (mask False) take nothing from the stick.  Returns ``(weights, rest)``
    where ``rest`` (no key axis) is what is left of the stick after the oldest key.
    """

    @staticmethod
    def forward(ctx, logits: torch.Tensor, mask: Optional[torch.Tensor] = None):
        take = torch.sigmoid(logits)
        log_keep = F.logsigmoid(-logits)
        if mask is not None:
            take = take.masked_fill(~mask, 0.0)
            log_keep = log_keep.masked_fill(~mask, 0.0)
        incl = log_keep.flip(-1).cumsum(-1).flip(-1)
        weights = take * torch.exp(incl - log_keep)
        rest = torch.exp(incl[..., 0])
        ctx.save_for_backward(take, weights)
        return weights, rest

    @staticmethod
    def backward(ctx, grad_weights, _grad_rest):
        take, weights = ctx.saved_tensors
        gw = grad_weights * weights
        older = gw.cumsum(-1) - gw
        # (d log take = 1 - take, d log keep = -take)
        grad = gw * (1.0 - take) - take * older
        return grad, None


def stick_breaking_attention(q, k, v, mask=None, sink: Optional[torch.Tensor] = None):
    """q, k, v: (..., length, dim); causal, diagonal excluded.

    With ``sink`` (dim,) the part of the stick that no key took is spent on that vector.
    """
    length = q.shape[-2]
    causal = torch.ones(length, length, dtype=torch.bool, device=q.device).tril(-1)
    keep = causal if mask is None else causal & mask[..., None, :]
    logits = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    weights, rest = StickBreakingWeights.apply(logits, keep.expand_as(logits))
    out = weights @ v
    if sink is not None:
        out = out + rest[..., None] * sink
    return out


class ProductKeyTopK(torch.autograd.Function):
    """Scores and slots of the k best product keys.

    The score of slot (a, b) is ``q[:, :d] . left[a] + q[:, d:] . right[b]``; slots are numbered
    ``a * n + b``.
    """

    @staticmethod
    def forward(query, left, right, topk):
        d = left.shape[1]
        n = right.shape[0]
        kk = min(topk, left.shape[0]), min(topk, n)
        s1, i1 = (query[:, :d] @ left.T).topk(kk[0], dim=-1)
        s2, i2 = (query[:, d:] @ right.T).topk(kk[1], dim=-1)
        total = (s1[:, :, None] + s2[:, None, :]).flatten(1)
        slots = (i1[:, :, None] * n + i2[:, None, :]).flatten(1)
        scores, pick = total.topk(topk, dim=-1)
        return scores, slots.gather(1, pick)

    @staticmethod
    def setup_context(ctx, inputs, output):
        query, left, right, _ = inputs
        _, slots = output
        ctx.mark_non_differentiable(slots)
        ctx.save_for_backward(query, left, right, slots)

    @staticmethod
    def backward(ctx, grad_scores, _):
        query, left, right, slots = ctx.saved_tensors
        d, n = left.shape[1], right.shape[0]
        a = torch.div(slots, n, rounding_mode="floor")
        b = slots % n
        g_query = g_left = g_right = None
        if ctx.needs_input_grad[0]:
            g_query = torch.cat(
                [(grad_scores[..., None] * left[a]).sum(1), (grad_scores[..., None] * right[b]).sum(1)], -1
            )
        if ctx.needs_input_grad[1]:
            hit = grad_scores.new_zeros(query.shape[0], left.shape[0]).scatter_add_(1, a, grad_scores)
            g_left = hit.T @ query[:, :d]
        if ctx.needs_input_grad[2]:
            hit = grad_scores.new_zeros(query.shape[0], n).scatter_add_(1, b, grad_scores)
            g_right = hit.T @ query[:, d:]
        return g_query, g_left, g_right, None


class ProductKeyMemory(nn.Module):
    """Large key-value memory (Lample et al., 2019) with a single head."""

    def __init__(self, dim: int, keys: int = 32, topk: int = 8):
        super().__init__()
        half = dim // 2
        self.left = nn.Parameter(torch.randn(keys, half) / half ** 0.5)
        self.right = nn.Parameter(torch.randn(keys, dim - half) / half ** 0.5)
        self.values = nn.EmbeddingBag(keys * keys, dim, mode="sum")
        self.topk = topk

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, x.shape[-1])
        scores, slots = ProductKeyTopK.apply(flat, self.left, self.right, self.topk)
        return self.values(slots, per_sample_weights=scores.softmax(-1)).reshape(x.shape)


class StochasticDepthResidual(torch.autograd.Function):
    """``x + gamma * branch * m / (1 - rate)`` with one coin ``m`` per sample.

    ``x`` and ``branch`` are (batch, ..., dim), ``gamma`` is (dim,), ``0 <= rate < 1``.  Outside of
    training every sample keeps its branch unscaled.  The coins are drawn again from ``seed`` in the backward pass instead of being stored.
    """

    @staticmethod
    def _coins(ref: torch.Tensor, rate: float, seed: int) -> torch.Tensor:
        gen = torch.Generator(device="cpu").manual_seed(seed)
        coins = torch.rand(ref.shape[0], generator=gen, dtype=torch.float64) >= rate
        coins = coins.to(device=ref.device, dtype=ref.dtype) / (1.0 - rate)
        return coins.view(-1, *([1] * (ref.dim() - 1)))

    @staticmethod
    def forward(ctx, x, branch, gamma, rate: float, seed: int, training: bool):
        ctx.save_for_backward(branch, gamma)
        ctx.rate, ctx.seed = (rate, seed) if training else (0.0, seed)
        if ctx.rate == 0.0:
            return torch.addcmul(x, branch, gamma)
        return x + StochasticDepthResidual._coins(branch, rate, seed) * gamma * branch

    @staticmethod
    def backward(ctx, grad):
        branch, gamma = ctx.saved_tensors
        scaled = grad
        if ctx.rate:
            scaled = grad * StochasticDepthResidual._coins(branch, ctx.rate, ctx.seed)
        g_branch = scaled * gamma if ctx.needs_input_grad[1] else None
        g_gamma = (scaled * branch).flatten(0, -2).sum(0) if ctx.needs_input_grad[2] else None
        return grad, g_branch, g_gamma, None, None, None


class DropPathScale(nn.Module):
    """Layer scale followed by stochastic depth; 0 <= rate < 1, features last."""

    def __init__(self, dim: int, rate: float = 0.1, init: float = 1e-4):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((dim,), init))
        self.rate = rate

    def forward(self, x, branch, seed: int = 0):
        return StochasticDepthResidual.apply(x, branch, self.gamma, self.rate, seed, self.training)


class FieldAwareInteraction(torch.autograd.Function):
    """Second-order term of a field-aware factorisation machine.

    Args:
        table: (vocab, fields, dim), ``table[v, f]`` is feature v's vector towards field f.
        ids: (batch, fields) long, the feature active in every field.
        values: (batch, fields) feature values.

    Returns:
        (batch,)  sum_{i < j} <table[id_i, j], table[id_j, i]> x_i x_j
    """

    @staticmethod
    def forward(ctx, table, ids, values):
        emb = table[ids]                                     # (batch, i, j, dim)
        inner = (emb * emb.transpose(1, 2)).sum(-1)
        upper = torch.triu(torch.ones_like(inner[0]), 1)
        ctx.save_for_backward(table, ids, values)
        return torch.einsum("bij,bi,bj->b", inner * upper, values, values)

    @staticmethod
    def backward(ctx, grad):
        table, ids, values = ctx.saved_tensors
        emb = table[ids]
        swapped = emb.transpose(1, 2)
        off = 1.0 - torch.eye(ids.shape[1], dtype=table.dtype, device=table.device)
        grad_table = grad_values = None
        if ctx.needs_input_grad[0]:
            coef = grad[:, None, None] * values[:, :, None] * values[:, None, :] * off
            grad_emb = coef[..., None] * swapped
            grad_table = torch.zeros_like(table)
            grad_table[ids] += grad_emb
        if ctx.needs_input_grad[2]:
            inner = (emb * swapped).sum(-1) * off
            grad_values = grad[:, None] * torch.einsum("bij,bj->bi", inner, values)
        return grad_table, None, grad_values


class ClickModel(nn.Module):
    def __init__(self, vocab, fields, dim=4):
        super().__init__()
        self.linear = nn.Embedding(vocab, 1)
        self.table = nn.Parameter(0.05 * torch.randn(vocab, fields, dim))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, ids, values=None):
        if values is None:
            values = torch.ones(ids.shape, dtype=self.table.dtype, device=ids.device)
        first = (self.linear(ids).squeeze(-1) * values).sum(-1)
        return self.bias + first + FieldAwareInteraction.apply(self.table, ids, values)
