"""Analogue in-memory layers: a resistive crossbar, its converters and the slow loss of its states.

Conductances are in microsiemens, voltages in volts, currents in microamperes, times in seconds.
"""
import math

import torch
from torch import nn
from torch.autograd import Function

G_MIN, G_MAX = 0.5, 25.0
READ_CURVES = ("tanh", "algebraic")


def weight_to_pair(weight, g_max=G_MAX, g_min=G_MIN):
    """Split a signed weight into a pair of conductances.

    Parameters
    ----------
    weight : Tensor, shape (out, rows)
    g_max, g_min : float
        Programmable window of a cell.

    Returns
    -------
    g_pos, g_neg : Tensor, shape (out, rows)
    factor : Tensor
        Microsiemens per unit of weight.
    """
    factor = (g_max - g_min) / weight.abs().max().clamp(min=1e-12)
    return g_min + weight.clamp(min=0) * factor, g_min + (-weight).clamp(min=0) * factor, factor


class DifferentialPairMatVec(Function):
    """Difference current of paired bit lines, with series resistance.

    Parameters
    ----------
    volts : Tensor, shape (..., inputs)
    g_pos, g_neg : Tensor, shape (out, rows)
    series : Tensor
        Series resistance (megaohm) of a cell's path, a scalar, ``(out, 1)`` or ``(out, rows)``.
    wordline : LongTensor, shape (rows,)
        Input that drives each physical row.  Several rows may hang on one input.

    Returns
    -------
    Tensor, shape (..., out)
    """

    @staticmethod
    def forward(volts, g_pos, g_neg, series, wordline):
        net = g_pos / (1 + series * g_pos) - g_neg / (1 + series * g_neg)
        return volts[..., wordline] @ net.t()

    @staticmethod
    def setup_context(ctx, inputs, output):
        volts, g_pos, g_neg, series, wordline = inputs
        ctx.save_for_backward(volts, g_pos, g_neg, series, wordline)

    @staticmethod
    def backward(ctx, grad_out):
        volts, g_pos, g_neg, series, wordline = ctx.saved_tensors
        d_pos, d_neg = 1 + series * g_pos, 1 + series * g_neg
        grads = [None] * 5
        if ctx.needs_input_grad[0]:
            rows = grad_out @ (g_pos / d_pos - g_neg / d_neg)
            grads[0] = torch.zeros_like(volts).index_add_(-1, wordline, rows)
        if any(ctx.needs_input_grad[1:4]):
            flat = grad_out.reshape(-1, grad_out.shape[-1])
            driven = volts[..., wordline].reshape(-1, wordline.numel())
            outer = flat.t() @ driven
            if ctx.needs_input_grad[1]:
                grads[1] = outer / d_pos ** 2
            if ctx.needs_input_grad[2]:
                grads[2] = -outer / d_neg ** 2
            if ctx.needs_input_grad[3]:
                lost = (g_neg / d_neg) ** 2 - (g_pos / d_pos) ** 2
                grads[3] = (outer * lost).sum_to_size(series.shape)
        return tuple(grads)


class TileRead(Function):
    """Compressive read-out of a tile of columns.

    Parameters
    ----------
    current : Tensor, shape (batch, tiles, columns)
    full_scale : Tensor, shape (tiles, 1)
        Current at which a tile's converter compresses.
    curve : {"tanh", "algebraic"}
    """

    @staticmethod
    def forward(current, full_scale, curve):
        if curve not in READ_CURVES:
            raise ValueError(f"unknown curve {curve!r}")
        u = current / full_scale
        if curve == "tanh":
            return full_scale * torch.tanh(u)
        return current * torch.rsqrt(1 + u * u)

    @staticmethod
    def setup_context(ctx, inputs, output):
        current, full_scale, ctx.curve = inputs
        ctx.save_for_backward(current, full_scale)

    @staticmethod
    def backward(ctx, grad_out):
        current, full_scale = ctx.saved_tensors
        grad_current = grad_scale = None
        u = current / full_scale
        if ctx.needs_input_grad[0]:
            if ctx.curve == "tanh":
                slope = 1 - torch.tanh(u) ** 2
                rest = torch.tanh(u) - u * slope
            else:
                slope = (1 + u * u) ** -1.5
                rest = u ** 3 * slope
            grad_current = grad_out * slope
            if ctx.needs_input_grad[1]:
                grad_scale = (grad_out * rest).sum_to_size(full_scale.shape)
        return grad_current, grad_scale, None


class RetentionDrift(Function):
    """Power-law relaxation of programmed cells towards a floor.

    Parameters
    ----------
    g0 : Tensor, shape (out, rows)
        Conductance right after programming.
    nu : Tensor, shape (levels,)
        Drift exponent of each programming level.
    level : LongTensor, shape (out, rows)
        Programming level of each cell.
    elapsed, t0 : float
        Seconds since programming, and the reference of the law.
    floor : float
    """

    @staticmethod
    def forward(ctx, g0, nu, level, elapsed, t0=1.0, floor=G_MIN):
        lapse = math.log(elapsed / t0)
        decay = torch.exp(-nu[level] * lapse)
        ctx.save_for_backward(g0, nu, level, decay)
        ctx.lapse, ctx.floor = lapse, floor
        return floor + (g0 - floor) * decay

    @staticmethod
    def backward(ctx, grad_out):
        g0, nu, level, decay = ctx.saved_tensors
        grad_g0 = grad_out * decay
        grad_nu = torch.zeros_like(nu)
        grad_nu[level] += -ctx.lapse * (g0 - ctx.floor) * grad_g0
        return grad_g0, grad_nu, None, None, None, None


class CrossbarLinear(nn.Module):
    """A linear layer on ``tiles`` crossbars, ``out_features`` columns shared out evenly."""

    def __init__(self, in_features, out_features, tiles=1, spare_rows=0, curve="tanh", levels=8):
        super().__init__()
        if out_features % tiles:
            raise ValueError("out_features must be a multiple of tiles")
        self.tiles, self.curve, self.levels = tiles, curve, levels
        rows = torch.cat([torch.arange(in_features), torch.arange(spare_rows) % in_features])
        self.register_buffer("wordline", rows)
        self.weight = nn.Parameter(torch.randn(out_features, rows.numel()) / in_features ** 0.5)
        self.series = nn.Parameter(torch.full((out_features, 1), 2e-3))
        self.full_scale = nn.Parameter(torch.full((tiles, 1), 40.0))
        self.nu = nn.Parameter(torch.linspace(0.08, 0.01, levels))

    def forward(self, x, elapsed=None):
        g_pos, g_neg, factor = weight_to_pair(self.weight)
        if elapsed is not None:
            g_pos, g_neg = (RetentionDrift.apply(g, self.nu, self._level(g), elapsed) for g in (g_pos, g_neg))
        current = DifferentialPairMatVec.apply(x, g_pos, g_neg, self.series, self.wordline)
        split = current.reshape(x.shape[0], self.tiles, -1)
        return TileRead.apply(split, self.full_scale, self.curve).reshape(x.shape[0], -1) / factor

    def _level(self, g):
        step = (g.detach() - G_MIN) / (G_MAX - G_MIN) * self.levels
        return step.long().clamp(0, self.levels - 1)


def calibrate_full_scale(recorded, target, tiles, steps=200, lr=0.5, curve="tanh"):
    """Fit each tile's converter to recorded currents ``(batch, tiles, columns)`` and what was read."""
    scale = torch.full((tiles, 1), float(recorded.abs().mean()), requires_grad=True)
    opt = torch.optim.Adam([scale], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = (TileRead.apply(recorded, scale, curve) - target).square().mean()
        loss.backward()
        opt.step()
    return scale.detach()
