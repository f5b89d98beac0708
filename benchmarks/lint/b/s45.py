import torch
import torch.nn as nn


class CELU(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = 1.0

    def forward(self, x):
        return torch.where(x > 0, x, self.alpha * torch.expm1(x / self.alpha))
