import torch
import torch.nn as nn
from torch.nn import functional as F


class InfoNCE(nn.Module):
    """Query/key projection with an in-batch contrastive objective."""

    def __init__(self, dim, out=128):
        super().__init__()
        self.proj = nn.Linear(dim, out, bias=False)
        self.temperature = 0.1

    def forward(self, queries, keys):
        q = F.normalize(self.proj(queries), dim=-1)
        k = F.normalize(self.proj(keys), dim=-1)
        sim = q @ k.t() / self.temperature
        pos = sim.diagonal()
        return (sim.exp().sum(-1).log() - pos).mean()
