import torch
import torch.nn.functional as F


def spread_term(z, gamma=1.0):
    """Hinge on the spread of every embedding dimension over the batch."""
    std = torch.sqrt(z.var(dim=0) + 1e-4)
    return F.relu(gamma - std).mean()


def covariance_term(z):
    z = z - z.mean(dim=0)
    cov = z.T @ z / (z.shape[0] - 1)
    off = cov - torch.diag(torch.diagonal(cov))
    return off.pow(2).sum() / z.shape[1]
