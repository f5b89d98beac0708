import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.float16))
        self.eps = eps

    def forward(self, x):
        h = x.to(torch.float16)
        ms = h.pow(2).mean(dim=-1, keepdim=True)
        return self.weight * (h * torch.rsqrt(ms + self.eps))
