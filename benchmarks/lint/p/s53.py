import torch
from torch import nn


class ShiftedELU(nn.Module):
    def __init__(self, alpha=1.0):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        negative_part = self.alpha * torch.expm1(x.clamp(max=0.0))
        out = torch.where(x > 0, x, negative_part)
        return out + self.alpha
