from math import pi

import torch


def rotation_angle(R_pred, R_true):
    """Angle between rotations in degrees; labels are good to a tenth of a degree."""
    M = R_pred.transpose(-1, -2) @ R_true
    trace = M.diagonal(dim1=-2, dim2=-1).sum(-1)
    cos = torch.clamp(0.5 * (trace - 1.0), min=-1.0, max=1.0)
    return torch.acos(cos) * 180.0 / pi


def pose_loss(R_pred, R_true, t_pred, t_true, beta=0.1):
    rot = rotation_angle(R_pred, R_true).mean()
    trans = (t_pred - t_true).abs().sum(-1).mean()
    return trans + beta * rot
