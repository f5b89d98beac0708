import math

import torch


def neighbor_attention(q, k, v, valid):
    """q: [N, D]; k, v: [N, M, D]; valid: [N, M] marks existing neighbours."""
    scale = 1.0 / math.sqrt(q.shape[-1])
    scores = torch.einsum("nd,nmd->nm", q, k) * scale
    scores = scores.masked_fill(~valid, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("nm,nmd->nd", weights, v)
