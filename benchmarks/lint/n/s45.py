import torch


def gated_weights(scores, mask):
    gate = torch.sigmoid(scores.float())
    gate = gate * mask.float()
    total = gate.sum(dim=-1, keepdim=True)
    return gate / (total + 1e-8)


def pool(values, scores, mask):
    w = gated_weights(scores, mask)
    return torch.einsum("bk,bkd->bd", w, values)
