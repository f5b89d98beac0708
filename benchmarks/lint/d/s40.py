import torch

EPS = 1e-6


def edge_bce(prob, target, pos_weight=1.0):
    """Binary cross entropy on float32 probabilities in [0, 1], clipped at the ends."""
    p = prob.clamp(min=EPS, max=1.0 - EPS)
    pos = pos_weight * target * torch.log(p)
    neg = (1.0 - target) * torch.log(1.0 - p)
    return -(pos + neg).mean()
