import math

import torch
import torch.nn.functional as F


class HeadingLoss(torch.nn.Module):
    """Von Mises likelihood for predicted headings in radians."""

    def __init__(self, reduction="mean"):
        super().__init__()
        self.reduction = reduction

    def forward(self, mu, raw_kappa, target):
        kappa = F.softplus(raw_kappa)
        log_norm = math.log(2 * math.pi) + torch.log(torch.special.i0(kappa))
        nll = log_norm - kappa * torch.cos(target - mu)
        return nll.mean() if self.reduction == "mean" else nll
