import torch
from torch import nn


class FeatureStandardizer(nn.Module):
    """Batch statistics over (N, T, C) sensor streams."""

    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        mean = x.mean(dim=(0, 1))
        mean_sq = (x * x).mean(dim=(0, 1))
        var = mean_sq - mean * mean
        x = (x - mean) / torch.sqrt(var + self.eps)
        return x * self.gain + self.shift
