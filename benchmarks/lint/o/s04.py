import math

import torch
import torch.nn.functional as F
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)

    def forward(self, x, memory, keep):
        """keep: [B, S] bool, True for real memory tokens."""
        B, T, D = x.shape
        split = lambda t: t.view(B, -1, self.heads, D // self.heads).transpose(1, 2)
        q = split(self.q(x))
        k, v = map(split, self.kv(memory).chunk(2, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(D // self.heads)
        scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
        att = F.softmax(scores, dim=-1)
        return (att @ v).transpose(1, 2).reshape(B, T, D)
