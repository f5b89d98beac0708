import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.float16))

    def forward(self, x):
        x = x.float()
        ms = x.pow(2).mean(-1, keepdim=True)
        y = x * torch.rsqrt(ms + self.eps)
        return y.half() * self.weight
