import torch
from torch import nn
import torch.nn.functional as F


class BPR(nn.Module):
    def __init__(self, n_users, n_items, dim=32):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)

    def forward(self, u, i, j):
        e = self.user(u)
        x_ui = (e * self.item(i)).sum(dim=-1)
        x_uj = (e * self.item(j)).sum(dim=-1)
        return F.softplus(x_uj - x_ui).mean()
