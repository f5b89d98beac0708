import torch
import torch.nn.functional as F


def sigmoid_focal(logits, targets, alpha=0.25, gamma=2.0):
    p = torch.sigmoid(logits)
    q = torch.sigmoid(-logits)
    pos = alpha * q.pow(gamma) * F.logsigmoid(logits)
    neg = (1 - alpha) * p.pow(gamma) * F.logsigmoid(-logits)
    loss = torch.where(targets > 0.5, -pos, -neg)
    return loss.mean()
