import torch

EPS = 1e-4


def keypoint_loss(pred, gt):
    """Penalty-reduced pixelwise logistic regression on sigmoid outputs."""
    pred = pred.clamp(min=EPS, max=1 - EPS)
    pos = gt.eq(1).float()
    neg = gt.lt(1).float() * (1 - gt).pow(4)
    pos_loss = pred.log() * (1 - pred).pow(2) * pos
    neg_loss = (1 - pred).log() * pred.pow(2) * neg
    return -(pos_loss.sum() + neg_loss.sum()) / pos.sum().clamp(min=1.0)
