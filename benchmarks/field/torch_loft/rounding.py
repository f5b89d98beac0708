"""Learned rounding of weights for post-training quantization."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class RoundingConfig:
    bits: int = 4
    gamma: float = -0.1
    zeta: float = 1.1
    beta: float = 4.0

    @property
    def limits(self):
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


class AdaRoundFunction(torch.autograd.Function):
    """Soft rounding: ``s * clip(floor(w / s) + h(v))`` and its regulariser.

    Shapes: ``weight`` and ``v`` (O, ...), ``step`` (O, 1, ...) positive. ``h``
    is the rectified sigmoid stretched to (gamma, zeta), cut to [0, 1]. The
    second output is ``sum(1 - |2 h - 1| ** beta)``, a scalar, beta >= 2. The
    floor has zero slope.
    """

    @staticmethod
    def forward(ctx, weight, v, step, config):
        lo, hi = config.limits
        sig = v.sigmoid()
        h = (sig * (config.zeta - config.gamma) + config.gamma).clamp(0, 1)
        raw = (weight / step).floor() + h
        q = raw.clamp(lo, hi)
        reg = (1 - (2 * h - 1).abs().pow(config.beta)).sum()
        ctx.config = config
        ctx.save_for_backward(sig, h, q, step, (raw >= lo) & (raw <= hi))
        return step * q, reg

    @staticmethod
    def backward(ctx, g_weight, g_reg):
        sig, h, q, step, inside = ctx.saved_tensors
        cfg = ctx.config
        dh = sig * (1 - sig) * (cfg.zeta - cfg.gamma) * ((h > 0) & (h < 1))
        d_reg = -2 * cfg.beta * (2 * h - 1).abs().pow(cfg.beta - 1)
        g_v = (g_weight * step * inside + g_reg * d_reg) * dh
        g_step = (g_weight * q).sum_to_size(step.shape)
        return None, g_v, g_step, None


class SoftRoundedLinear(nn.Module):
    def __init__(self, linear: nn.Linear, config: RoundingConfig = RoundingConfig()):
        super().__init__()
        w = linear.weight.detach()
        self.register_buffer("weight", w)
        self.bias = linear.bias
        self.config = config
        step = w.abs().amax(1, keepdim=True) / config.limits[1]
        self.register_buffer("step", step)
        rest = w / step - (w / step).floor()
        span = config.zeta - config.gamma
        p = ((rest - config.gamma) / span).clamp(1e-4, 1 - 1e-4)
        self.v = nn.Parameter(torch.log(p / (1 - p)))

    def forward(self, x):
        w, reg = AdaRoundFunction.apply(self.weight, self.v, self.step, self.config)
        return nn.functional.linear(x, w, self.bias), reg


def rounding_loss(parts, *, weight=0.01):
    return weight * sum(reg for _, reg in parts)
