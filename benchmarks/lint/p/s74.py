import torch


def relative_cosine(r_pred, r_gt):
    rel = torch.matmul(r_pred, r_gt.transpose(-1, -2))
    trace = rel.diagonal(dim1=-2, dim2=-1).sum(-1)
    return (trace - 1.0) / 2.0


def rotation_loss(r_pred, r_gt):
    """Mean geodesic distance on SO(3), in radians."""
    cosine = relative_cosine(r_pred, r_gt)
    angle = torch.acos(cosine.clamp(-1.0, 1.0))
    return angle.mean()
