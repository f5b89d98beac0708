import torch
import torch.nn as nn


class GeM(nn.Module):
    """Power-mean of absolute responses, one vector per image."""

    def __init__(self, p=3.0):
        super().__init__()
        self.p = p

    def forward(self, feat):
        x = feat.abs()
        x = x.pow(self.p).mean(dim=(-2, -1))
        return x.pow(1.0 / self.p)

    def extra_repr(self):
        return f"p={self.p}"
