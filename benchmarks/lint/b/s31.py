import math

import torch


def causal_attention(q, k, v):
    """q, k, v: (batch, time, dim)."""
    t = k.size(1)
    hidden = torch.ones(t, t, dtype=torch.bool).triu(diagonal=1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
    return weights @ v
