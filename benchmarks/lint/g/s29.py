import torch


def geodesic_loss(r_pred, r_true):
    """Mean rotation angle between two batches of 3x3 rotation matrices."""
    rel = torch.matmul(r_pred, r_true.transpose(-1, -2))
    trace = rel.diagonal(dim1=-2, dim2=-1).sum(-1)
    cos = ((trace - 1.0) / 2.0).clamp(-1.0 + 1e-8, 1.0 - 1e-8)
    return torch.acos(cos).mean()
