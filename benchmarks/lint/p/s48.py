import torch
import torch.nn.functional as F


def multilabel_loss(logits, targets, pos_weight=2.0, reduction="mean"):
    pos = pos_weight * targets * F.logsigmoid(logits)
    neg = (1.0 - targets) * F.logsigmoid(-logits)
    loss = -(pos + neg)
    if reduction == "none":
        return loss
    return loss.mean()
