import torch
from torch import nn


class HalfRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.float16))
        self.eps = eps

    def forward(self, hidden):
        hidden = hidden.to(torch.float32)
        power = hidden.pow(2).mean(dim=-1, keepdim=True)
        normed = hidden * torch.rsqrt(power + self.eps)
        return normed.to(torch.float16) * self.weight
