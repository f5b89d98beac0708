import math

import torch


def mdn_nll(logits, mu, log_sigma, y):
    log_w = torch.log_softmax(logits, dim=-1)
    log_sigma = log_sigma.clamp(-7.0, 7.0)
    z = (y.unsqueeze(-1) - mu) * torch.exp(-log_sigma)
    log_dens = -0.5 * z * z - log_sigma - 0.5 * math.log(2 * math.pi)
    lik = torch.logsumexp(log_w + log_dens, dim=-1)
    return -lik.mean()
