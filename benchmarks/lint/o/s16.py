import torch
from torch import nn


class CastingLayerNorm(nn.Module):
    """Layer norm for fp16 inference."""

    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(dim, dtype=torch.float16))
        self.shift = nn.Parameter(torch.zeros(dim, dtype=torch.float16))

    def forward(self, x):
        x = x.to(torch.float32)
        mu = x.mean(-1, keepdim=True)
        centred = x - mu
        var = centred.pow(2).mean(-1, keepdim=True)
        y = centred / torch.sqrt(var + self.eps)
        return y.to(torch.float16) * self.gain + self.shift
