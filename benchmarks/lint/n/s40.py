import torch
import torch.nn as nn


class BPRLoss(nn.Module):
    def __init__(self, weight_decay=1e-4):
        super().__init__()
        self.weight_decay = weight_decay

    def forward(self, user, item_pos, item_neg):
        gap = (user * (item_pos - item_neg)).sum(dim=1)
        nll = nn.functional.softplus(gap.neg()).mean()
        return nll + self.weight_decay * user.square().sum()
