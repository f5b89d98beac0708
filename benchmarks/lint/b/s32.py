import torch
import torch.nn as nn


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_items, dim=64):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)

    def bpr(self, u, i, j):
        pu = self.user(u)
        x_ui = (pu * self.item(i)).sum(dim=-1)
        x_uj = (pu * self.item(j)).sum(dim=-1)
        return -torch.log(torch.sigmoid(x_ui - x_uj)).mean()
