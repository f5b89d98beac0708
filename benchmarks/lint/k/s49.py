import math

import torch


def mdn_nll(logits, mu, log_sigma, y):
    weights = torch.softmax(logits, dim=-1)
    sigma = log_sigma.exp()
    z = (y.unsqueeze(-1) - mu) / sigma
    dens = torch.exp(-0.5 * z * z) / (sigma * math.sqrt(2 * math.pi))
    lik = (weights * dens).sum(dim=-1)
    return -lik.log().mean()
