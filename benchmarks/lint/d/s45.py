import torch


def attention(q, k, v, bias=None):
    """q, k, v: (batch, heads, time, dim)."""
    d = q.size(-1)
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / d ** 0.5
    if bias is not None:
        scores = scores + bias
    w = scores.exp()
    w = w / w.sum(dim=-1, keepdim=True)
    return w @ v
