import torch


def multilabel_loss(logits, targets, pos_weight=2.0, reduction="mean"):
    p = torch.sigmoid(logits)
    pos = pos_weight * targets * torch.log(p)
    neg = (1.0 - targets) * torch.log(1.0 - p)
    loss = -(pos + neg)
    if reduction == "none":
        return loss
    return loss.mean()
