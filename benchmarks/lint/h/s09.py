import torch
import torch.nn.functional as F


def pairwise_distances(emb):
    diff = emb.unsqueeze(1) - emb.unsqueeze(0)
    return diff.pow(2).sum(dim=2).sqrt()


def batch_hard_triplet(emb, labels, margin=0.3):
    dist = pairwise_distances(emb)
    same = labels[:, None].eq(labels[None, :]).float()
    hardest_pos = (dist * same).max(dim=1).values
    hardest_neg = (dist + 1e4 * same).min(dim=1).values
    return F.relu(hardest_pos - hardest_neg + margin).mean()
