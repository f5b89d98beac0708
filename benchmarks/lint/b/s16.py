import torch


def normal_angle_loss(pred, target):
    """Mean angle between unit normals of shape (..., 3)."""
    cos = (pred * target).sum(dim=-1)
    angle = cos.clamp(-1.0, 1.0).acos()
    return angle.mean()
