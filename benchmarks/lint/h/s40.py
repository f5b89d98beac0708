import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.float16))
        self.eps = eps

    def forward(self, hidden):
        h = hidden.to(torch.float16)
        ms = h.float().pow(2).mean(-1, keepdim=True)
        out = h * torch.rsqrt(ms + self.eps)
        return self.weight * out.to(h.dtype)
