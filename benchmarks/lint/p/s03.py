import math

import torch
from torch import nn


class DiagonalMixture(nn.Module):
    def __init__(self, n_components, dim):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_components))
        self.means = nn.Parameter(torch.randn(n_components, dim))

    def log_prob(self, x):
        diff = x.unsqueeze(1) - self.means
        quad = diff.pow(2).sum(-1)
        dens = torch.exp(-0.5 * quad) / math.pow(2 * math.pi, x.shape[-1] / 2)
        mix = torch.softmax(self.logits, dim=0)
        return torch.log((mix * dens).sum(-1))
