"""Ground-coupled heat exchangers: wall temperatures, header manifolds and grout resistance.

All quantities in SI units; loads are in W per metre of bore, positive when heat is rejected to the ground.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class LoopSettings:
    n_headers: int
    flow_floor: float = 0.02  # kg/s below which a header is topped up with make-up water
    u_tubes: int = 1


def _reduce_like(grad: Tensor, ref_shape) -> Tensor:
    """Sum ``grad`` down to ``ref_shape`` (undo broadcasting)."""
    return grad.sum_to_size(ref_shape)


def _lags(n: int, device) -> Tensor:
    t = torch.arange(n, device=device)
    return t[:, None] - t[None, :]


class LoadSuperposition(torch.autograd.Function):
    """Fluid temperature by temporal superposition of load steps.

    .. math:: T_t = T_0 + R_b q_t + \\sum_{j \\le t} g_{t-j} (q_j - q_{j-1}),  \\quad q_{-1} = q_{base}

    :param load: heat rates, ``(bores, steps)``
    :param base: load that was in force before the record, ``(bores,)``
    :param response: step response at lags 0..steps-1, ``(steps,)`` common to the field or ``(bores, steps)``
    :param resistance: bore resistance, ``(bores,)``
    :param undisturbed: far-field temperature, ``(bores,)``
    """

    @staticmethod
    def forward(ctx, load, base, response, resistance, undisturbed):
        steps = load.shape[-1]
        increments = torch.diff(load, dim=-1, prepend=base[:, None])
        lag = _lags(steps, load.device)
        causal = lag >= 0
        toeplitz = response[..., lag.clamp_min(0)] * causal
        history = torch.matmul(toeplitz, increments[..., None]).squeeze(-1)
        ctx.save_for_backward(increments, response, resistance)
        return undisturbed[:, None] + resistance[:, None] * load + history

    @staticmethod
    def backward(ctx, grad):
        increments, response, resistance = ctx.saved_tensors
        steps = increments.shape[-1]
        lag = _lags(steps, grad.device)
        causal = lag >= 0
        toeplitz = response[..., lag.clamp_min(0)] * causal
        g_inc = torch.matmul(toeplitz.transpose(-1, -2), grad[..., None]).squeeze(-1)

        g_load = g_inc + resistance[:, None] * grad
        g_load[:, :-1] -= g_inc[:, 1:]
        g_base = -g_inc[:, 0]

        pairs = grad[:, :, None] * increments[:, None, :] * causal
        g_resp = grad.new_zeros(grad.shape[0], steps)
        g_resp.index_add_(1, lag.clamp_min(0).reshape(-1), pairs.reshape(grad.shape[0], -1))
        if response.dim() == 1:
            g_resp = g_resp.sum(0)

        load = torch.cumsum(increments, dim=-1)
        g_resistance = (grad * load).sum(-1)
        return g_load, g_base, g_resp, g_resistance, grad.sum(-1)


class HeaderMix(torch.autograd.Function):
    """Temperature of the water in each header after the loops that feed it are mixed.

    ``loop_temp`` is (batch, loops); ``flow`` is non-negative, (loops,) or (batch, loops); ``header`` (loops,) says which
    header a loop returns to, several loops to one header, some headers possibly without any.  A header with less flow
    than ``floor`` is topped up to ``floor`` with water of temperature ``makeup`` (a scalar tensor).
    """

    @staticmethod
    def forward(loop_temp, flow, makeup, header, n_headers, floor):
        wide = flow.expand_as(loop_temp)
        zeros = loop_temp.new_zeros(loop_temp.shape[0], n_headers)
        total = zeros.index_add(1, header, wide)
        heat = zeros.index_add(1, header, wide * loop_temp)
        shortfall = (floor - total).clamp_min(0)
        return (heat + shortfall * makeup) / total.clamp_min(floor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        loop_temp, flow, makeup, header, n_headers, floor = inputs
        ctx.save_for_backward(loop_temp, flow, makeup, header, output)
        ctx.n_headers, ctx.floor = n_headers, floor

    @staticmethod
    def backward(ctx, grad):
        loop_temp, flow, makeup, header, mixed = ctx.saved_tensors
        wide = flow.expand_as(loop_temp)
        total = grad.new_zeros(grad.shape).index_add(1, header, wide)
        short = total < ctx.floor
        scaled = grad / total.clamp_min(ctx.floor)
        reference = torch.where(short, makeup.expand_as(mixed), mixed)
        g_temp = scaled[:, header] * wide
        g_flow = scaled[:, header] * (loop_temp - reference[:, header])
        g_makeup = (scaled * (ctx.floor - total).clamp_min(0)).sum()
        return (
            g_temp,
            _reduce_like(g_flow, flow.shape),
            g_makeup.reshape(makeup.shape),
            None,
            None,
            None,
        )


class GroutResistance(torch.autograd.Function):
    """Line-source resistance of a grouted U-tube, first order in the grout/ground contrast.

    ``k_grout``, ``k_ground`` and ``shank`` (half the distance between the legs) broadcast against one another, e.g.
    grouts in rows and sites in columns.  ``radii`` is ``(bore radius, pipe radius)``.
    """

    @staticmethod
    def forward(ctx, k_grout, k_ground, shank, radii):
        r_b, r_p = radii
        x4 = (shank / r_b) ** 4
        contrast = (k_grout - k_ground) / (k_grout + k_ground)
        bracket = math.log(r_b / r_p) + torch.log(r_b / (2 * shank)) - contrast * torch.log1p(-x4)
        ctx.save_for_backward(k_grout, k_ground, shank, bracket)
        ctx.r_b = r_b
        return bracket / (4 * math.pi * k_grout)

    @staticmethod
    def backward(ctx, grad):
        k_grout, k_ground, shank, bracket = ctx.saved_tensors
        x4 = (shank / ctx.r_b) ** 4
        both = k_grout + k_ground
        contrast = (k_grout - k_ground) / both
        g_bracket = grad / (4 * math.pi * k_grout)
        g_contrast = -g_bracket * torch.log1p(-x4)
        g_grout = 2 * k_ground * g_contrast / both**2 - g_bracket * bracket / k_grout
        g_ground = -2 * k_ground * g_contrast / both**2
        g_shank = g_bracket * (-1 / shank + contrast * 4 * x4 / (shank * (1 - x4)))
        return (
            _reduce_like(g_grout, k_grout.shape),
            _reduce_like(g_ground, k_ground.shape),
            _reduce_like(g_shank, shank.shape),
            None,
        )


class BoreField(nn.Module):
    """Learnable response factors of a field of parallel bores."""

    def __init__(self, n_bores: int, steps: int, header: Tensor, settings: LoopSettings):
        super().__init__()
        self.settings = settings
        self.response = nn.Parameter(torch.log1p(torch.arange(1.0, steps + 1)) / (4 * math.pi))
        self.resistance = nn.Parameter(torch.full((n_bores,), 0.1))
        self.register_buffer("header", header)

    def forward(self, load, base, undisturbed, flow, makeup):
        temps = LoadSuperposition.apply(load, base, self.response, self.resistance, undisturbed)
        s = self.settings
        return HeaderMix.apply(temps.t(), flow, makeup, self.header, s.n_headers, s.flow_floor)
