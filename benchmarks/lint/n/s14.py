import torch
import torch.nn.functional as F


def euclid(a, b):
    gap = a - b
    sq = gap.mul(gap).sum(dim=-1)
    return sq.clamp(min=1e-12).sqrt()


def triplet_loss(anchor, positive, negative, margin=0.3):
    d_pos = euclid(anchor, positive)
    d_neg = euclid(anchor, negative)
    return F.relu(d_pos - d_neg + margin).mean()
