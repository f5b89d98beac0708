import torch
from torch import nn


class ContrastiveLoss(nn.Module):
    def __init__(self, dim=128, tau=0.07):
        super().__init__()
        self.proj = nn.Linear(dim, dim, bias=False)
        self.tau = tau

    def forward(self, q, k):
        q, k = self.proj(q), self.proj(k)
        sim = q @ k.t() / self.tau
        return (sim.exp().sum(-1).log() - sim.diagonal()).mean()
