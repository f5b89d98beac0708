import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)

    def forward(self, x):
        B, T, D = x.shape
        split = lambda t: t.view(B, -1, self.heads, D // self.heads).transpose(1, 2)
        q = split(self.q(x))
        k, v = map(split, self.kv(x).chunk(2, dim=-1))
        keep = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        scores = q @ k.transpose(-2, -1) / math.sqrt(D // self.heads)
        scores = scores.masked_fill(~keep, float("-inf"))
        att = F.softmax(scores, dim=-1)
        return (att @ v).transpose(1, 2).reshape(B, T, D)
