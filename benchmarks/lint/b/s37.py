import math

import torch


def padded_attention(q, k, v, lengths):
    """q, k, v: (batch, time, dim); lengths: (batch,), zero for an empty slot of the batch."""
    t = k.size(1)
    hidden = torch.arange(t)[None, :] >= lengths[:, None]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    weights = scores.masked_fill(hidden[:, None, :], float("-inf")).softmax(dim=-1)
    return weights @ v
