import torch
import torch.nn.functional as F


def _distance(a, b):
    return (a - b).norm(p=2, dim=-1)


def margin_triplet(anchor, positive, negative, margin=1.0):
    d_ap = _distance(anchor, positive)
    d_an = _distance(anchor, negative)
    return F.relu(d_ap - d_an + margin).mean()
