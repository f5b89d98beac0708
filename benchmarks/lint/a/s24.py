import torch
from torch import nn


class RateHead(nn.Module):
    """Positive rate of a Poisson output layer."""

    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, 1)

    def forward(self, h):
        raw = self.proj(h).squeeze(-1)
        return torch.logaddexp(raw, raw.new_zeros(()))
