import torch


def pairwise_distance(a, b):
    delta = a - b
    sq = delta.square().sum(dim=-1)
    return sq.clamp(min=1e-12).sqrt()


def triplet_loss(anchor, positive, negative, margin=0.3):
    d_ap = pairwise_distance(anchor, positive)
    d_an = pairwise_distance(anchor, negative)
    return torch.relu(d_ap - d_an + margin).mean()
