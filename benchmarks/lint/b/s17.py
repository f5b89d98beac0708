import torch
import torch.nn.functional as F


def _distance(a, b):
    return (a - b).pow(2).sum(dim=-1).sqrt()


def triplet_loss(anchor, positive, negative, margin=1.0):
    d_ap = _distance(anchor, positive)
    d_an = _distance(anchor, negative)
    return F.relu(d_ap - d_an + margin).mean()
