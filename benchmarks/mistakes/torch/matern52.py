"""Matern-5/2 covariance of distances."""
import math

import torch

SQRT5 = math.sqrt(5.0)


class Matern52(torch.autograd.Function):
    """r: (n, m) distances, ell: scalar tensor -> (n, m)"""

    @staticmethod
    def forward(ctx, r, ell):
        s = SQRT5 * r / ell
        e = torch.exp(-s)
        ctx.save_for_backward(s, e, ell)
        return (1.0 + s + s * s / 3.0) * e

    @staticmethod
    def backward(ctx, gk):
        s, e, ell = ctx.saved_tensors
        gs = gk * (-s * (1.0 + s) * e)
        gr = gs * SQRT5 / ell
        gell = -(gs * s).sum() / ell
        return gr, gell


def matern52(r, ell):
    return Matern52.apply(r, ell)
