import torch


def orientation_loss(pred, target):
    """Mean angle between predicted and true planar headings, both in radians."""
    a = torch.stack((pred.cos(), pred.sin()), dim=-1)
    b = torch.stack((target.cos(), target.sin()), dim=-1)
    dot = (a * b).sum(dim=-1)
    cross = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return torch.atan2(cross, dot).abs().mean()
