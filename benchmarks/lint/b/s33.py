import torch


def others_miss(prob):
    """prob: (batch, causes) in [0, 1]; chance that all the other causes miss."""
    miss = 1.0 - prob
    one = torch.ones_like(miss[..., :1])
    left = torch.cumprod(torch.cat([one, miss[..., :-1]], dim=-1), dim=-1)
    right = torch.cumprod(torch.cat([one, miss.flip(-1)[..., :-1]], dim=-1), dim=-1).flip(-1)
    return left * right


def noisy_or_credit(prob, leak=0.01):
    return prob * (1.0 - leak) * others_miss(prob)
