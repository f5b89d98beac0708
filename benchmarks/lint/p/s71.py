import torch
from torch import nn


class MinibatchSpread(nn.Module):
    """Appends the average per-feature spread of the batch as a channel."""

    def forward(self, x):
        n, _, h, w = x.shape
        var = x.var(dim=0, unbiased=False)
        spread = (var + 1e-8).sqrt().mean()
        extra = spread.expand(n, 1, h, w)
        return torch.cat([x, extra], dim=1)
