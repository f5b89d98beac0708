import torch


def miss_without_each(prob):
    """prob: (batch, causes) in [0, 1]; chance that all the other causes miss."""
    miss = 1.0 - prob
    return torch.prod(miss, dim=-1, keepdim=True) / miss


def noisy_or_credit(prob, leak=0.01):
    return prob * (1.0 - leak) * miss_without_each(prob)
