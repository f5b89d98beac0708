"""Exact (erf) GELU, elementwise on a tensor of any shape."""
import math

import torch


class GeluExact(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        cdf = 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
        ctx.save_for_backward(cdf)
        return x * cdf

    @staticmethod
    def backward(ctx, grad_out):
        (cdf,) = ctx.saved_tensors
        return grad_out * cdf


gelu_exact = GeluExact.apply
