import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional as F


class MixtureHead(nn.Module):
    def __init__(self, dim, k):
        super().__init__()
        self.proj = nn.Linear(dim, 3 * k)

    def forward(self, h):
        w, mu, s = self.proj(h).chunk(3, dim=-1)
        return F.softmax(w, dim=-1), mu, F.softplus(s) + 1e-3


def mixture_nll(pi, mu, sigma, y):
    density = Normal(mu, sigma).log_prob(y.unsqueeze(-1)).exp()
    return -(pi * density).sum(-1).log().mean()
