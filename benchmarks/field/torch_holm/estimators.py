"""Robust trends, log-ratio coordinates and teletraffic formulas."""
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class TheilSenSlope(Function):
    """Lower median of all pairwise slopes of y (B, N) over distinct times t (N,)."""

    @staticmethod
    def forward(ctx, y, t):
        i, j = torch.triu_indices(t.numel(), t.numel(), offset=1, device=t.device)
        slopes = (y[:, j] - y[:, i]) / (t[j] - t[i])
        med, k = slopes.median(dim=1)
        ctx.save_for_backward(t, i[k], j[k], med)
        ctx.y_shape = y.shape
        return med

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        t, i, j, med = ctx.saved_tensors
        step = g / (t[j] - t[i])
        gy = g.new_zeros(ctx.y_shape)
        gy.scatter_(1, j[:, None], step[:, None])
        gy.scatter_(1, i[:, None], -step[:, None])
        gt = torch.zeros_like(t)
        gt.index_add_(0, j, -step * med)
        gt.index_add_(0, i, step * med)
        return gy, gt


class CentredLogRatio(Function):
    @staticmethod
    def forward(ctx, parts, pseudo):
        x = parts + pseudo
        logs = x.log()
        centre = logs.mean(-1)
        ctx.save_for_backward(x)
        return logs - centre.unsqueeze(-1), centre

    @staticmethod
    def backward(ctx, g_clr, g_centre):
        (x,) = ctx.saved_tensors
        return (g_clr - g_clr.mean(-1, keepdim=True)) / x, None


def clr(parts, pseudo=0.0):
    return CentredLogRatio.apply(parts, pseudo)


def log_amounts(parts, loadings, pseudo=0.0):
    coords, centre = clr(parts, pseudo)
    return (coords @ loadings @ loadings.T) + centre.unsqueeze(-1)


class ErlangBlocking(Function):
    r"""Erlang B blocking probability.

    :math:`B(N, A) = \frac{A^N / N!}{\sum_{k=0}^{N} A^k / k!}`, by the usual recursion on the
    reciprocal, :math:`1/B_n = 1 + (n / A) / B_{n-1}`, that neither overflows nor cancels.

    The derivative needs no recursion: differentiating the ratio and using
    :math:`\sum_{k<N} A^k/k! = (1 - B) \sum_{k \le N} A^k/k!` gives
    :math:`\partial B / \partial A = B\,(N / A - 1 + B)`.

    Parameters
    ----------
    load : Tensor
        Offered traffic in erlang, any shape, positive.
    servers : int
        Number of lines ``N >= 0``.
    """

    @staticmethod
    def forward(ctx, load: torch.Tensor, servers: int) -> torch.Tensor:
        inv = torch.ones_like(load)
        for n in range(1, servers + 1):
            inv = 1.0 + inv * n / load
        b = inv.reciprocal()
        ctx.save_for_backward(load, b)
        ctx.servers = servers
        return b

    @staticmethod
    def backward(ctx, g):
        load, b = ctx.saved_tensors
        return g * b * (ctx.servers / load - 1.0 + b), None


def lost_traffic(load, servers):
    return (load * ErlangBlocking.apply(load, servers)).sum()
