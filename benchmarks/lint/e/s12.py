import torch
from torch import nn
from torch.nn import functional as F


class NCELoss(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, q, k):
        q = F.normalize(self.proj(q), dim=-1)
        k = F.normalize(self.proj(k), dim=-1)
        sim = q @ k.t() / 0.07
        return (sim.exp().sum(-1).log() - sim.diagonal()).mean()
