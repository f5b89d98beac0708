import torch
from torch import nn


class RateHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, 1)

    @staticmethod
    def rectify(z):
        grown = 1.0 + torch.exp(z)
        return grown.log()

    def forward(self, features):
        return self.rectify(self.proj(features)).squeeze(-1)
