import torch


def rotation_error(r_pred, r_true):
    """Mean rotation angle between two batches of 3x3 rotation matrices."""
    rel = torch.matmul(r_pred, r_true.transpose(-1, -2))
    trace = rel.diagonal(dim1=-2, dim2=-1).sum(-1)
    cos = (trace - 1.0) / 2.0
    skew = rel - rel.transpose(-1, -2)
    sin = torch.linalg.vector_norm(skew, dim=(-2, -1)) / 8.0 ** 0.5
    return torch.atan2(sin, cos).mean()
