import torch
from torch import nn
from torch.nn import functional as F


class BPR(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.users = nn.Embedding(users, dim)
        self.items = nn.Embedding(items, dim)

    def score(self, u, i):
        return (self.users(u) * self.items(i)).sum(-1)

    def forward(self, u, pos, neg):
        gap = self.score(u, pos) - self.score(u, neg)
        return -F.logsigmoid(gap).mean()
