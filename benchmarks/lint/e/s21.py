import torch


def heading_loss(pred, target):
    """Mean angle between predicted and true planar headings, both in radians."""
    a = torch.stack((pred.cos(), pred.sin()), dim=-1)
    b = torch.stack((target.cos(), target.sin()), dim=-1)
    dot = (a * b).sum(dim=-1)
    return torch.acos(dot).mean()
