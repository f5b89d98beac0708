import torch
from torch import nn


class HalfRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.float16))
        self.eps = eps

    def forward(self, hidden):
        hidden = hidden.to(torch.float16)
        power = hidden.pow(2).mean(dim=-1, keepdim=True)
        return hidden * torch.rsqrt(power + self.eps) * self.weight
