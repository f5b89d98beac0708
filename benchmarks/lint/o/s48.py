import math

import torch


def transport(x, y, reg=0.01, n_iter=50):
    """Entropic transport plan between two uniform point clouds."""
    cost = (x[:, None, :] - y[None, :, :]).pow(2).sum(-1)
    n, m = cost.shape
    log_a = -math.log(n)
    log_b = -math.log(m)
    log_k = -cost / reg
    g = torch.zeros(m)
    for _ in range(n_iter):
        f = log_a - torch.logsumexp(log_k + g[None, :], dim=1)
        g = log_b - torch.logsumexp(log_k + f[:, None], dim=0)
    return torch.exp(f[:, None] + log_k + g[None, :])
