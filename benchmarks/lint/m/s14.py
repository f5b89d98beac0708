import torch
import torch.nn.functional as F


def angular_error(pred, target):
    pred = F.normalize(pred, dim=-1)
    target = F.normalize(target, dim=-1)
    cosine = (pred * target).sum(dim=-1)
    cosine = cosine.clamp(-1.0 + 1e-6, 1.0 - 1e-6)
    return torch.rad2deg(torch.acos(cosine)).mean()
