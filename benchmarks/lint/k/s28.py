import torch


@torch.inference_mode()
def attend(query, key, value, causal=False):
    scores = query @ key.transpose(-2, -1)
    scores /= query.shape[-1] ** 0.5
    if causal:
        n = scores.shape[-1]
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        scores.masked_fill_(future, float("-inf"))
    scores.exp_()
    scores.div_(scores.sum(dim=-1, keepdim=True))
    return scores @ value
