import torch


def pairwise_distances(emb):
    diff = emb.unsqueeze(0) - emb.unsqueeze(1)
    d2 = diff.pow(2).sum(dim=-1)
    d2 = d2.clamp_min(1e-12)
    return d2.sqrt()


def repulsion(emb, margin=1.0):
    dist = pairwise_distances(emb)
    return torch.relu(margin - dist).triu(diagonal=1).sum()
