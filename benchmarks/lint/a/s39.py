import torch
from torch import nn


class ScaleHead(nn.Module):
    """Positive scale of a Gaussian output layer."""

    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, 1)

    def forward(self, h):
        raw = self.proj(h).squeeze(-1)
        return raw.exp().add(1).log()
