"""Differentiable front end of a cochlear-implant processor.

Envelope -> electric charge -> spread along the scala tympani -> response of
the nerve.  Used to fit clinical maps (T and M levels) by gradient descent.
"""
import math

import torch
from torch import nn
from torch.autograd import Function

RHO = 416.2          # steepness of the clinical log compression
SPACING_MM = 0.95    # pitch of the contact array


def contact_positions(n_contacts, spacing=SPACING_MM):
    """Distance of each contact from the round window, in mm."""
    return torch.arange(n_contacts, dtype=torch.get_default_dtype()) * spacing + 8.0


def _reduce_to(grad, like):
    return grad.sum_to_size(like.shape)


class LoudnessGrowth(Function):
    """Maps an acoustic envelope onto the electric dynamic range of a listener.

    Args:
        env: envelope per channel, ``(batch, frames, channels)``, any sign and size.
        t_level: charge at threshold, ``(channels,)``.
        m_level: charge at most comfortable level, ``(channels,)``.
        base: envelope that is mapped to ``t_level``.
        sat: envelope that is mapped to ``m_level``; louder frames stay at ``m_level``.
        shape: ``"log"`` or ``"power"``.
        alpha: exponent for ``shape="power"``.

    Returns:
        Charge with the shape of ``env``.
    """

    @staticmethod
    def forward(ctx, env, t_level, m_level, base=0.0156, sat=0.5859, shape="log", alpha=0.3):
        x = ((env - base) / (sat - base)).clamp(0.0, 1.0)
        if shape == "log":
            f = torch.log1p(RHO * x) / math.log1p(RHO)
        elif shape == "power":
            f = x.pow(alpha)
        else:
            raise ValueError(f"unknown growth {shape!r}")
        ctx.save_for_backward(x, f, t_level, m_level)
        ctx.span, ctx.shape, ctx.alpha = sat - base, shape, alpha
        return t_level + (m_level - t_level) * f

    @staticmethod
    def backward(ctx, grad):
        x, f, t_level, m_level = ctx.saved_tensors
        audible = x > 0
        if ctx.shape == "log":
            slope = RHO / ((1.0 + RHO * x) * math.log1p(RHO))
        else:
            safe = torch.where(audible, x, torch.ones_like(x))
            slope = ctx.alpha * safe.pow(ctx.alpha - 1.0)
        slope = torch.where(audible, slope, torch.zeros_like(slope))
        d_env = grad * (m_level - t_level) * slope / ctx.span
        d_t = _reduce_to(grad * (1.0 - f), t_level)
        d_m = _reduce_to(grad * f, m_level)
        return d_env, d_t, d_m, None, None, None, None


class CurrentSpread(Function):
    """Spread of excitation from every contact to every neural site.

    Site ``i`` receives ``sum_j exp(-|x_i - x_j| / lam_j) * q_j``.

    Args:
        charge: ``(..., contacts)``.
        lam: space constant of each source contact in mm, ``(contacts,)``.
        pos: contact positions in mm, ``(contacts,)``; fixed anatomy.
    """

    @staticmethod
    def forward(ctx, charge, lam, pos):
        dist = (pos[:, None] - pos[None, :]).abs()
        kernel = torch.exp(-dist / lam)
        ctx.save_for_backward(charge, lam, dist, kernel)
        return charge @ kernel.t()

    @staticmethod
    def backward(ctx, grad):
        charge, lam, dist, kernel = ctx.saved_tensors
        d_charge = d_lam = None
        if ctx.needs_input_grad[0]:
            d_charge = grad @ kernel.t()
        if ctx.needs_input_grad[1]:
            g2 = grad.reshape(-1, grad.shape[-1])
            q2 = charge.reshape(-1, charge.shape[-1])
            d_kernel = g2.t() @ q2
            d_lam = (d_kernel * kernel * dist).sum(0) / lam.square()
        return d_charge, d_lam, None


class RefractoryRecovery(Function):
    """Scales a pulse by how far the fibre has recovered since the last one.

    Args:
        drive: ``(batch, pulses, fibres)``.
        gap: time since the previous pulse in ms, finite, broadcast to ``drive``.
        tau: recovery constant in ms, scalar or ``(fibres,)``.
        dead: absolute refractory period in ms, scalar or ``(fibres,)``.
    """

    @staticmethod
    def forward(ctx, drive, gap, tau, dead):
        u = ((gap - dead) / tau).clamp_min(0.0)
        ctx.save_for_backward(drive, gap, tau, dead)
        return drive * -torch.expm1(-u)

    @staticmethod
    def backward(ctx, grad):
        drive, gap, tau, dead = ctx.saved_tensors
        u = (gap - dead) / tau
        live = (u > 0).to(grad.dtype)
        u = u.clamp_min(0.0)
        left = torch.exp(-u)
        push = grad * drive * left * live / tau
        return (
            grad * (1.0 - left),
            _reduce_to(push, gap),
            _reduce_to(-push * u, tau),
            _reduce_to(-push, dead),
        )


class ElectrodeMap(nn.Module):
    """Clinical map of one listener: T/M levels and the spread of each contact."""

    def __init__(self, n_contacts=22, shape="log"):
        super().__init__()
        self.shape = shape
        self.t_level = nn.Parameter(torch.full((n_contacts,), 0.8))
        self.m_level = nn.Parameter(torch.full((n_contacts,), 1.7))
        self.log_lam = nn.Parameter(torch.full((n_contacts,), math.log(2.5)))
        self.register_buffer("pos", contact_positions(n_contacts))

    def forward(self, env):
        charge = LoudnessGrowth.apply(env, self.t_level, self.m_level, 0.0156, 0.5859, self.shape, 0.3)
        return CurrentSpread.apply(charge, self.log_lam.exp(), self.pos)


class NerveResponse(nn.Module):
    def __init__(self, n_fibres=22):
        super().__init__()
        self.tau = nn.Parameter(torch.full((n_fibres,), 0.7))
        self.dead = nn.Parameter(torch.tensor(0.4))

    def forward(self, drive, gap):
        return RefractoryRecovery.apply(drive, gap, self.tau, self.dead)


def fit_map(model, nerve, env, gap, target, steps=50, lr=1e-2):
    """Fits a map to measured neural responses (ECAP amplitudes)."""
    opt = torch.optim.Adam([*model.parameters(), *nerve.parameters()], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = (nerve(model(env), gap) - target).square().mean()
        loss.backward()
        opt.step()
    return loss.item()
