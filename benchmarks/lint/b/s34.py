import torch
import torch.nn as nn


class ContrastiveHead(nn.Module):
    """Query/key projection with an in-batch contrastive objective."""

    def __init__(self, dim, out=128):
        super().__init__()
        self.proj = nn.Linear(dim, out, bias=False)
        self.temperature = 0.1

    def forward(self, queries, keys):
        q = self.proj(queries)
        k = self.proj(keys)
        sim = q @ k.t() / self.temperature
        pos = sim.diagonal()
        return (sim.exp().sum(-1).log() - pos).mean()
