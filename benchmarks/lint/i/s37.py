import torch


def pairwise_distances(emb):
    sq = emb.pow(2).sum(dim=1)
    gram = emb @ emb.t()
    d2 = sq.unsqueeze(0) + sq.unsqueeze(1)
    d2 -= 2.0 * gram
    return d2.sqrt()


def repulsion(emb, margin=1.0):
    dist = pairwise_distances(emb)
    return torch.relu(margin - dist).triu(diagonal=1).sum()
