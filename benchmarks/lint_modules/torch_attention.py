"""Attention variants, sequence models and pooling."""
import math

import torch
from torch import nn
from torch.nn import functional as fn


def split_heads(x, n_heads):
    b, t, d = x.shape
    return x.view(b, t, n_heads, d // n_heads).transpose(1, 2)


def merge_heads(x):
    b, h, t, d = x.shape
    return x.transpose(1, 2).reshape(b, t, h * d)


def rotary_table(dim, length, base=10000.0):
    inv_freq = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
    phase = torch.outer(torch.arange(length).float(), inv_freq)
    return phase.cos(), phase.sin()


def apply_rotary(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class CausalAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (split_heads(t, self.n_heads) for t in self.qkv(x).chunk(3, dim=-1))
        cos, sin = rotary_table(q.size(-1), x.size(1))
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.size(-1))
        future = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        attn = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        return self.out(merge_heads(attn @ v))


class CrossAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)

    def forward(self, x, context):
        k, v = self.kv(context).chunk(2, dim=-1)
        logits = torch.matmul(self.q(x), k.transpose(-2, -1))
        attn = logits.exp() / logits.exp().sum(dim=-1, keepdim=True)
        return attn @ v


def blockwise_attention(q, k, v, mask):
    """Inference only; ``mask`` is True at the positions to hide."""
    s = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5
    s = s.masked_fill_(mask, -1e4)
    s -= s.amax(dim=-1, keepdim=True)
    s.exp_()
    return (s @ v) / s.sum(dim=-1, keepdim=True)


class HMM(nn.Module):
    def __init__(self, n_states, n_symbols):
        super().__init__()
        self.start = nn.Parameter(torch.randn(n_states))
        self.trans = nn.Parameter(torch.randn(n_states, n_states))
        self.emit = nn.Parameter(torch.randn(n_states, n_symbols))

    def likelihood(self, obs):
        pi = self.start.softmax(0)
        A = self.trans.softmax(1)
        B = self.emit.softmax(1)
        alpha = pi * B[:, obs[0]]
        for o in obs[1:]:
            alpha = (alpha @ A) * B[:, o]
        return alpha.sum()


class HaltingUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, 1)

    def forward(self, states):
        halt = torch.sigmoid(self.proj(states)).squeeze(-1)
        log_still_running = torch.cumprod(1.0 - halt, dim=-1).log()
        return halt, log_still_running


class GatedScorer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.content = nn.Linear(dim, 1)
        self.gate = nn.Linear(dim, 1)

    def forward(self, x):
        g = self.gate(x).sigmoid()
        bias = torch.log(g)
        return fn.softmax(self.content(x) + bias, dim=1)


class FeatureStats:
    """Keeps per-channel first and second moments over the data set."""

    def __init__(self, channels):
        self.n = 0
        self.s1 = torch.zeros(channels)
        self.s2 = torch.zeros(channels)

    def update(self, x):
        self.n += x.size(0)
        self.s1 += x.sum(0)
        self.s2 += x.square().sum(0)

    def std(self):
        m1, m2 = self.s1 / max(self.n, 1), self.s2 / max(self.n, 1)
        return torch.sqrt(m2 - m1 ** 2)


class GeMPool(nn.Module):
    def __init__(self, p=3.0, eps=1e-6):
        super().__init__()
        self.register_buffer("p", torch.tensor(p))
        self.eps = eps

    def forward(self, x):
        x = x.clamp(min=self.eps)
        return x.pow(self.p).mean(dim=(-2, -1)).pow(1.0 / self.p)
