import torch
import torch.nn.functional as F


def spread_loss(z, target=1.0):
    std = torch.sqrt(z.var(dim=0)) + 1e-4
    return F.relu(target - std).mean()


def covariance_loss(z):
    n, d = z.shape
    zc = z - z.mean(dim=0)
    cov = zc.T @ zc / (n - 1)
    return (cov.pow(2).sum() - cov.diagonal().pow(2).sum()) / d
