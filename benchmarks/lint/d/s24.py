import torch


def relative_rotation(r1, r2):
    return r1.transpose(-1, -2) @ r2


def geodesic_loss(r1, r2):
    """Mean angle in radians between batches of 3x3 rotations, float32."""
    r = relative_rotation(r1, r2)
    cos = 0.5 * (r[..., 0, 0] + r[..., 1, 1] + r[..., 2, 2] - 1.0)
    axis = torch.stack([r[..., 2, 1] - r[..., 1, 2], r[..., 0, 2] - r[..., 2, 0], r[..., 1, 0] - r[..., 0, 1]], -1)
    sin = 0.5 * torch.sqrt((axis * axis).sum(-1) + 1e-12)
    angle = torch.atan2(sin, cos)
    return angle.mean()
