import torch
import torch.nn as nn


class RootMeanSquareNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.float16))

    def forward(self, x):
        h = x.to(torch.float32)
        inv = torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * (h * inv).to(torch.float16)
