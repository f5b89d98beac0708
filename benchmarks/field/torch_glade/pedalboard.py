"""Differentiable guitar-pedal building blocks (phaser stages, diode clippers).

The recursions are written out sample by sample on purpose: they run on short
training excerpts, and saving only the input and the output of each stage keeps
memory flat when many stages are chained.
"""
from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function


class AllpassSection(Function):
    """First order all-pass section with carried state.

    With one coefficient per channel::

        y[n] = c * x[n] + z[n]
        z[n + 1] = x[n] - c * y[n]

    Inputs are ``x`` of shape (batch, channels, time), ``coef`` of shape
    (channels,) and the entry state ``z0`` of shape (batch, channels). Returns
    the filtered signal and the state after the last sample, so that a long
    recording can be processed in blocks and trained through block borders.
    """

    @staticmethod
    def forward(x: Tensor, coef: Tensor, z0: Tensor) -> Tuple[Tensor, Tensor]:
        y = torch.empty_like(x)
        z = z0
        for n in range(x.shape[-1]):
            y[..., n] = coef * x[..., n] + z
            z = x[..., n] - coef * y[..., n]
        return y, z.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, coef, _ = inputs
        y, _ = output
        ctx.save_for_backward(x, coef, y)

    @staticmethod
    def backward(ctx, grad_y, grad_z):
        x, coef, y = ctx.saved_tensors
        steps = x.shape[-1]
        bar_y = torch.empty_like(y)
        bar_z = torch.empty_like(y)  # bar_z[n]: adjoint of the state that enters sample n
        grad_x = torch.empty_like(x)
        carry = grad_z
        for n in range(steps - 1, -1, -1):
            bar_y[..., n] = grad_y[..., n] - coef * carry
            grad_x[..., n] = coef * bar_y[..., n] + carry
            carry = bar_y[..., n]
            bar_z[..., n] = carry
        grad_coef = None
        if ctx.needs_input_grad[1]:
            through_y = (bar_y * x).sum(dim=(0, 2))
            through_z = (bar_z[..., 1:] * y[..., :-1]).sum(dim=(0, 2))
            grad_coef = through_y - through_z
        return grad_x, grad_coef, carry


def _solve_clipper(x: Tensor, leak: Tensor, vt: Tensor, tol: float, max_iter: int) -> Tensor:
    """Root of ``v + 2 leak sinh(v / vt) = x``, Newton from above on |x|."""
    mag = x.abs()
    v = torch.minimum(mag, vt * torch.asinh(mag / (2.0 * leak)))
    for _ in range(max_iter):
        e = v / vt
        step = (v + 2.0 * leak * torch.sinh(e) - mag) / (1.0 + 2.0 * leak / vt * torch.cosh(e))
        v = v - step
        if step.abs().max() <= tol:
            break
    return torch.sign(x) * v


class DiodeClipFunction(Function):
    """Output voltage of an antiparallel diode pair behind a series resistor.

    Solves ``v + 2 * leak * sinh(v / vt) = x`` for ``v`` where ``leak`` is the
    series resistance times the saturation current and ``vt`` the (effective)
    thermal voltage. ``x`` is (batch, channels, time), ``leak`` and ``vt`` are
    positive, of shape (channels, 1). The derivative comes from the implicit
    function theorem, the Newton iterations are not unrolled.
    """

    @staticmethod
    def forward(ctx, x, leak, vt, tol=1e-13, max_iter=60):
        v = _solve_clipper(x, leak, vt, tol, max_iter)
        ctx.save_for_backward(v, leak, vt)
        return v

    @staticmethod
    def backward(ctx, grad):
        v, leak, vt = ctx.saved_tensors
        e = v / vt
        slope = 2.0 * leak / vt * torch.cosh(e)
        lam = grad / (1.0 + slope)
        grad_leak = grad_vt = None
        if ctx.needs_input_grad[1]:
            grad_leak = -(lam * 2.0 * torch.sinh(e)).sum(dim=(0, 2)).reshape(leak.shape)
        if ctx.needs_input_grad[2]:
            grad_vt = (lam * slope * e).sum(dim=(0, 2)).reshape(vt.shape)
        return lam, grad_leak, grad_vt, None, None


class PhaserStage(nn.Module):
    """Chain of all-pass sections mixed with the dry signal."""

    def __init__(self, channels: int, depth: int = 4, mix: float = 0.5):
        super().__init__()
        self.raw = nn.Parameter(torch.linspace(-1.0, 1.0, depth)[:, None].repeat(1, channels))
        self.mix = mix

    def forward(self, x: Tensor, state: Optional[list] = None) -> Tuple[Tensor, list]:
        wet, new_state = x, []
        for k, raw in enumerate(self.raw):
            z0 = x.new_zeros(x.shape[:2]) if state is None else state[k]
            wet, z = AllpassSection.apply(wet, torch.tanh(raw), z0)
            new_state.append(z)
        return (1.0 - self.mix) * x + self.mix * wet, new_state


class DiodeClipper(nn.Module):
    def __init__(self, channels: int, drive_db: float = 12.0):
        super().__init__()
        self.drive = math.pow(10.0, drive_db / 20.0)
        self.log_leak = nn.Parameter(torch.full((channels, 1), math.log(1e-3)))
        self.log_vt = nn.Parameter(torch.full((channels, 1), math.log(0.05)))

    def forward(self, x: Tensor) -> Tensor:
        return DiodeClipFunction.apply(self.drive * x, self.log_leak.exp(), self.log_vt.exp())
