import torch
import torch.nn.functional as F


def spread_hinge(z, gamma=1.0, eps=1e-4):
    """Hinge on the spread of every embedding dimension."""
    std = torch.sqrt(z.var(dim=0) + eps)
    return F.relu(gamma - std).mean()


def regularizer(z_a, z_b, weight=25.0):
    return weight * (spread_hinge(z_a) + spread_hinge(z_b)) / 2
