"""Attention with fewer queries, fewer keys and the right to attend to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn


@dataclass
class ThriftyConfig:
    width: int
    heads: int
    window: int = 4
    stride: Optional[int] = None  # defaults to the window
    clusters: int = 16
    dropout: float = 0.0

    @property
    def head_width(self) -> int:
        return self.width // self.heads


class ClusteredQueries(torch.autograd.Function):
    """Attention of cluster means, handed to all members of the cluster.

    query: (batch, heads, n, d)
    key: (batch, heads, m, d)
    value: (batch, heads, m, e)
    cluster: (batch, n) int64 in [0, n_clusters); clusters differ in size and may be empty
    """

    @staticmethod
    def forward(query, key, value, cluster, n_clusters, scale):
        mean, _ = ClusteredQueries._means(query, cluster, n_clusters)
        attn = torch.softmax(scale * mean @ key.transpose(-1, -2), -1)
        pooled = attn @ value
        index = cluster[:, None, :, None].expand(*query.shape[:3], value.shape[-1])
        return pooled.gather(2, index)

    @staticmethod
    def _means(query, cluster, n_clusters):
        b, h, n, d = query.shape
        size = query.new_zeros(b, n_clusters).scatter_add(
            1, cluster, torch.ones_like(cluster, dtype=query.dtype)
        )
        size = size.clamp_min(1)[:, None, :, None]
        index = cluster[:, None, :, None].expand(b, h, n, d)
        total = query.new_zeros(b, h, n_clusters, d).scatter_add(2, index, query)
        return total / size, size

    @staticmethod
    def setup_context(ctx, inputs, output):
        query, key, value, cluster, ctx.n_clusters, ctx.scale = inputs
        ctx.save_for_backward(query, key, value, cluster)

    @staticmethod
    def backward(ctx, grad):
        query, key, value, cluster = ctx.saved_tensors
        b, h, n, d = query.shape
        mean, size = ClusteredQueries._means(query, cluster, ctx.n_clusters)
        attn = torch.softmax(ctx.scale * mean @ key.transpose(-1, -2), -1)
        index = cluster[:, None, :, None]
        g_pooled = grad.new_zeros(b, h, ctx.n_clusters, value.shape[-1])
        g_pooled.scatter_add_(2, index.expand_as(grad), grad)
        g_value = attn.transpose(-1, -2) @ g_pooled
        g_attn = g_pooled @ value.transpose(-1, -2)
        g_score = ctx.scale * attn * (g_attn - (g_attn * attn).sum(-1, keepdim=True))
        g_key = g_score.transpose(-1, -2) @ mean
        g_mean = (g_score @ key) / size
        g_query = g_mean.gather(2, index.expand(b, h, n, d))
        return g_query, g_key, g_value, None, None, None


class QuietSoftmax(torch.autograd.Function):
    """Softmax with a silent slot, followed by dropout.

    ``p_j = exp(s_j) / (exp(sink_h) + sum_k exp(s_k))`` over the keys that ``visible`` allows; the result is
    ``p * keep / (1 - rate)``.

    Args:
        scores: ``(batch, heads, queries, keys)``.
        sink: logit of the silent slot, ``(heads,)``.
        visible: bool ``(batch, keys)``.
        keep: bool of the shape of ``scores``, the entries that dropout spares, or ``None`` at inference.
        rate: dropout rate that ``keep`` was drawn with.
    """

    @staticmethod
    def forward(ctx, scores, sink, visible, keep=None, rate=0.0):
        logits = scores.masked_fill(~visible[:, None, None, :], float("-inf"))
        silent = sink[None, :, None, None]
        top = torch.maximum(logits.amax(-1, keepdim=True), silent)
        e = torch.exp(logits - top)
        quiet = torch.exp(silent - top)
        norm = quiet + e.sum(-1, keepdim=True)
        out = e / norm
        if keep is not None:
            out = out * keep / (1.0 - rate)
        ctx.save_for_backward(out, quiet / norm)
        return out

    @staticmethod
    def backward(ctx, grad):
        out, quiet = ctx.saved_tensors
        inner = (grad * out).sum(-1, keepdim=True)
        g_scores = out * (grad - inner)
        g_sink = -(quiet * inner).sum((0, 2, 3))
        return g_scores, g_sink, None, None, None


class StridedKeySummary(torch.autograd.Function):
    """Summaries of windows of keys: ``out[b, m] = sum_j mix[j] * keys[b, m * stride + j]``.

    keys is (batch, length, width), mix (window, width); windows that would run over the end are left out.
    """

    @staticmethod
    def forward(ctx, keys, mix, stride):
        window = mix.shape[0]
        count = (keys.shape[1] - window) // stride + 1
        out = 0
        for j in range(window):
            out = out + mix[j] * keys[:, j : j + (count - 1) * stride + 1 : stride]
        ctx.save_for_backward(keys, mix)
        ctx.stride, ctx.count = stride, count
        return out

    @staticmethod
    def backward(ctx, grad):
        keys, mix = ctx.saved_tensors
        g_keys = torch.zeros_like(keys)
        g_mix = torch.empty_like(mix)
        for j in range(mix.shape[0]):
            span = slice(j, j + (ctx.count - 1) * ctx.stride + 1, ctx.stride)
            g_keys[:, span] = grad * mix[j]
            g_mix[j] = (grad * keys[:, span]).sum((0, 1))
        return g_keys, g_mix, None


class QuietAttention(nn.Module):
    """Multi-head attention over summarised keys."""

    def __init__(self, cfg: ThriftyConfig):
        super().__init__()
        self.cfg = cfg
        self.to_q = nn.Linear(cfg.width, cfg.width, bias=False)
        self.to_kv = nn.Linear(cfg.width, 2 * cfg.width, bias=False)
        self.mix = nn.Parameter(torch.full((cfg.window, cfg.width), 1.0 / cfg.window))
        self.sink = nn.Parameter(torch.zeros(cfg.heads))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.cfg.heads, self.cfg.head_width)).transpose(1, 2)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        stride = self.cfg.stride or self.cfg.window
        short = StridedKeySummary.apply(memory, self.mix, stride)
        k, v = map(self._split, self.to_kv(short).chunk(2, -1))
        q = self._split(self.to_q(x))
        scores = q @ k.transpose(-1, -2) / self.cfg.head_width**0.5
        visible = torch.ones(short.shape[:2], dtype=torch.bool, device=x.device)
        rate = self.cfg.dropout if self.training else 0.0
        keep = torch.rand_like(scores) >= rate if rate > 0 else None
        attn = QuietSoftmax.apply(scores, self.sink, visible, keep, rate)
        return (attn @ v).transpose(1, 2).flatten(2)
