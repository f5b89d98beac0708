"""Normalisation layers, weight reparametrisation and recurrent cells."""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class LayerNormFn(Function):
    """Layer norm over the last axis.

    Shapes: x (..., D), weight (D,), bias (D,).
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
        mu = x.mean(-1, keepdim=True)
        xc = x - mu
        rstd = (xc.square().mean(-1, keepdim=True) + eps).rsqrt()
        xhat = xc * rstd
        ctx.save_for_backward(xhat, rstd, weight)
        return xhat * weight + bias

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        xhat, rstd, weight = ctx.saved_tensors
        lead = tuple(range(dy.dim() - 1))
        dweight = (dy * xhat).sum(lead)
        dbias = dy.sum(lead)
        dxhat = dy * weight
        c1 = dxhat.mean(-1, keepdim=True)
        c2 = (dy * xhat).mean(-1, keepdim=True)
        dx = rstd * (dxhat - c1 - xhat * c2)
        return dx, dweight, dbias, None


class FusedLayerNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        return LayerNormFn.apply(x, self.weight, self.bias, self.eps)


class GroupNormFn(Function):
    """Group normalisation.

    Parameters
    ----------
    x : Tensor, shape (N, C, *)
    num_groups : int
        Must divide C.
    weight, bias : Tensor, shape (C,)
    eps : float
    """

    @staticmethod
    def forward(ctx, x, num_groups, weight, bias, eps=1e-5):
        n, c = x.shape[:2]
        xg = x.reshape(n, num_groups, -1)
        var, mean = torch.var_mean(xg, dim=2, unbiased=False, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        per_channel = (1, c) + (1,) * (x.dim() - 2)
        xhat = ((xg - mean) * rstd).reshape(x.shape)
        ctx.save_for_backward(x, mean, rstd, weight)
        ctx.num_groups = num_groups
        return xhat * weight.view(per_channel) + bias.view(per_channel)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, mean, rstd, weight = ctx.saved_tensors
        n, c = x.shape[:2]
        g = ctx.num_groups
        dyc = dy.reshape(n, c, -1)
        xhat = ((x.reshape(n, g, -1) - mean) * rstd)
        dweight = dbias = dx = None
        if ctx.needs_input_grad[2]:
            dweight = (dyc * xhat.reshape(n, c, -1)).sum(dim=(0, 2))
        if ctx.needs_input_grad[3]:
            dbias = dyc.sum(dim=(0, 2))
        if ctx.needs_input_grad[0]:
            dxhat = (dyc * weight[:, None]).reshape(n, g, -1)
            a = dxhat.mean(2, keepdim=True)
            b = (dxhat * xhat).mean(2, keepdim=True)
            dx = (rstd * (dxhat - a - xhat * b)).reshape(x.shape)
        return dx, None, dweight, dbias, None


class WeightNormFn(Function):
    """w = g * v / ||v||, the norm is over all axes but ``dim``.

    v: any weight, e.g. (out, in) or (out, in, k); g: the same rank with size 1
    everywhere but along ``dim`` (``dim=1`` for transposed convolutions).
    """

    @staticmethod
    def forward(ctx, v, g, dim=0):
        axes = tuple(i for i in range(v.dim()) if i != dim)
        norm = v.pow(2).sum(axes, keepdim=True).sqrt()
        ctx.save_for_backward(v, g, norm)
        ctx.axes = axes
        return g * v / norm

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_w):
        v, g, norm = ctx.saved_tensors
        grad_g = (grad_w * v).sum(ctx.axes, keepdim=True) / norm
        inner = (grad_w * v).flatten(1).sum(1).view(-1, *([1] * (v.dim() - 1)))
        grad_v = g / norm * (grad_w - v * inner / norm.pow(2))
        return grad_v, grad_g, None


def weight_norm(v, g, dim=0):
    return WeightNormFn.apply(v, g, dim)


class WNLinear(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.v = nn.Parameter(torch.randn(d_out, d_in) * 0.05)
        self.g = nn.Parameter(self.v.detach().norm(dim=1, keepdim=True))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x):
        return nn.functional.linear(x, weight_norm(self.v, self.g), self.bias)


class GRUCellFn(Function):
    @staticmethod
    def forward(ctx, x, h, w_ih, w_hh, b_ih, b_hh):
        gi = torch.addmm(b_ih, x, w_ih.t())
        gh = torch.addmm(b_hh, h, w_hh.t())
        i_r, i_z, i_n = gi.chunk(3, 1)
        h_r, h_z, h_n = gh.chunk(3, 1)
        r = torch.sigmoid(i_r + h_r)
        z = torch.sigmoid(i_z + h_z)
        n = torch.tanh(i_n + r * h_n)
        ctx.save_for_backward(x, h, w_ih, w_hh, r, z, n, h_n)
        return n + z * (h - n)

    @staticmethod
    @once_differentiable
    def backward(ctx, dh_new):
        x, h, w_ih, w_hh, r, z, n, h_n = ctx.saved_tensors
        dn = dh_new * (1 - z) * (1 - n * n)
        dz = dh_new * (h - n) * z * (1 - z)
        dr = dn * h_n * r * (1 - r)
        d_gi = torch.cat((dr, dz, dn), 1)
        d_gh = torch.cat((dr, dz, dn * r), 1)

        dx = d_gi @ w_ih
        dh = d_gh @ w_hh + dh_new * z
        dw_ih = d_gi.t() @ x
        dw_hh = d_gh.t() @ h
        db = d_gi.sum(0)
        return dx, dh, dw_ih, dw_hh, db, db


class GRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        ref = nn.GRUCell(input_size, hidden_size)
        self.weight_ih, self.weight_hh = ref.weight_ih, ref.weight_hh
        self.bias_ih, self.bias_hh = ref.bias_ih, ref.bias_hh

    def forward(self, x, h):
        return GRUCellFn.apply(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class LSTMCellFn(Function):
    # gates in the order i, f, g, o; one bias only

    @staticmethod
    def forward(ctx, x, h, c, w_ih, w_hh, b):
        ctx.set_materialize_grads(False)
        gates = x @ w_ih.t() + h @ w_hh.t() + b
        i, f, g, o = gates.chunk(4, dim=1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c_new = f * c + i * g
        tc = c_new.tanh()
        ctx.save_for_backward(x, h, c, w_ih, w_hh, i, f, g, o, tc)
        return o * tc, c_new

    @staticmethod
    @once_differentiable
    def backward(ctx, dh_new, dc_new):
        if dh_new is None and dc_new is None:
            return (None,) * 6
        x, h, c, w_ih, w_hh, i, f, g, o, tc = ctx.saved_tensors
        dc = torch.zeros_like(c) if dc_new is None else dc_new
        do = torch.zeros_like(o)
        if dh_new is not None:
            dc = dc + dh_new * o * (1 - tc ** 2)
            do = dh_new * tc
        dgates = torch.cat(
            [
                dc * g * i * (1 - i),
                dc * c * f * (1 - f),
                dc * i * (1 - g ** 2),
                do * o * (1 - o),
            ],
            dim=1,
        )
        return (
            dgates @ w_ih,
            dgates @ w_hh,
            dc * f,
            dgates.t() @ x,
            dgates.t() @ h,
            dgates.sum(0),
        )


class LinearRecurrence(Function):
    """h[t] = a[t] * h[t-1] + b[t], elementwise, for diagonal state space models.

    Args:
        a: decay, ``(batch, time, channels)``.
        b: drive, ``(batch, time, channels)``.
        h0: state before the first step, ``(batch, channels)``.

    Returns:
        all states, ``(batch, time, channels)``.
    """

    @staticmethod
    def forward(ctx, a, b, h0):
        h, states = h0, []
        for t in range(a.shape[1]):
            h = a[:, t] * h + b[:, t]
            states.append(h)
        out = torch.stack(states, dim=1)
        ctx.save_for_backward(a, h0, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        a, h0, out = ctx.saved_tensors
        carry = torch.zeros_like(h0)
        gb = []
        for t in range(a.shape[1] - 1, -1, -1):
            total = grad[:, t] + carry
            gb.append(total)
            carry = total * a[:, t]
        gb = torch.stack(gb[::-1], dim=1)
        previous = torch.cat((h0.unsqueeze(1), out[:, :-1]), dim=1)
        return gb * previous, gb, carry


class DiagonalSSM(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.log_decay = nn.Parameter(torch.zeros(channels))
        self.h0 = nn.Parameter(torch.zeros(channels))

    def forward(self, u):
        a = torch.exp(-nn.functional.softplus(self.log_decay)).expand_as(u)
        return LinearRecurrence.apply(a, u, self.h0.expand(u.shape[0], -1))
