import torch


def focal_loss(logits, targets, alpha=0.25, gamma=2.0):
    p = torch.sigmoid(logits)
    pos = alpha * (1 - p).pow(gamma) * torch.log(p)
    neg = (1 - alpha) * p.pow(gamma) * torch.log(1 - p)
    loss = torch.where(targets > 0.5, -pos, -neg)
    return loss.mean()
