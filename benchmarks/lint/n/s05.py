import torch
from torch import nn


class RateHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, 1)

    @staticmethod
    def rectify(z):
        low = z.clamp(max=20.0)
        grown = torch.log1p(torch.exp(low))
        return torch.where(z > 20.0, z, grown)

    def forward(self, features):
        return self.rectify(self.proj(features)).squeeze(-1)
