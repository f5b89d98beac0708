import torch


def gated_weights(scores, mask):
    gate = torch.sigmoid(scores.half())
    gate = gate * mask.half()
    total = gate.sum(dim=-1, keepdim=True)
    return gate / (total + 1e-8)


def pool(values, scores, mask):
    w = gated_weights(scores, mask).float()
    return torch.einsum("bk,bkd->bd", w, values)
