import torch
from torch import nn


class SentenceEncoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).float()
        h = self.proj(self.embed(ids)) * mask
        lengths = mask.sum(dim=1)
        return h.sum(dim=1) / lengths
