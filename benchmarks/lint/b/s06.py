import torch
import torch.nn.functional as F


def variance_term(z, gamma=1.0, eps=1e-4):
    """Hinge on the spread of every embedding dimension."""
    std = torch.sqrt(z.var(dim=0)) + eps
    return F.relu(gamma - std).mean()


def regularizer(z_a, z_b, weight=25.0):
    return weight * (variance_term(z_a) + variance_term(z_b)) / 2
