import torch
import torch.nn as nn


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.25):
        super().__init__()
        self.gamma = gamma
        self.alpha = alpha

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        pos = (1 - p) ** self.gamma * torch.log(p)
        neg = p ** self.gamma * torch.log(1 - p)
        loss = -(self.alpha * target * pos + (1 - self.alpha) * (1 - target) * neg)
        return loss.mean()
