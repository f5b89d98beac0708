import torch


def angular_error(pred, target):
    """Mean angle between unit normals of shape (..., 3)."""
    cos = (pred * target).sum(dim=-1)
    sin = torch.linalg.cross(pred, target, dim=-1).norm(dim=-1)
    angle = torch.atan2(sin, cos)
    return angle.mean()
