import torch
import torch.nn as nn


class PowerPool(nn.Module):
    """Power-mean of absolute responses, one vector per image."""

    def __init__(self, p=3.0, floor=1e-6):
        super().__init__()
        self.p = p
        self.floor = floor

    def forward(self, feat):
        x = feat.abs().clamp(min=self.floor)
        x = x.pow(self.p).mean(dim=(-2, -1))
        return x.pow(1.0 / self.p)

    def extra_repr(self):
        return f"p={self.p}"
