"""Motion models used by the multi-target tracker and by the sediment module."""
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

STANDARD_GRAVITY = 9.80665


class TurnTerms(NamedTuple):
    """sin(a)/a, (1 - cos(a))/a and their derivatives in a."""

    f: Tensor
    h: Tensor
    df: Tensor
    dh: Tensor


def turn_terms(a: Tensor) -> TurnTerms:
    near = a.abs() < 0.05
    s = torch.where(near, a, torch.zeros_like(a))
    b = torch.where(near, torch.ones_like(a), a)
    q = s * s
    sin, cos = torch.sin(b), torch.cos(b)
    half = torch.sin(0.5 * b)
    one_minus_cos = 2.0 * half * half
    f = torch.where(near, 1 - q / 6 * (1 - q / 20 * (1 - q / 42)), sin / b)
    h = torch.where(near, s / 2 * (1 - q / 12 * (1 - q / 30 * (1 - q / 56))), one_minus_cos / b)
    df = torch.where(near, -s / 3 + s * q / 30 - s * q * q / 840 + s * q ** 3 / 45360, (cos - sin / b) / b)
    dh = torch.where(near, 0.5 - q / 8 + q * q / 144 - q ** 3 / 5760, (sin - one_minus_cos / b) / b)
    return TurnTerms(f, h, df, dh)


class CoordinatedTurn(torch.autograd.Function):
    """One step of the coordinated-turn model.

    State ``[px, vx, py, vy, w]`` (w: turn rate, rad/s, either sign and zero), time step ``dt`` >= 0.
    """

    @staticmethod
    def forward(state: Tensor, dt: Tensor) -> Tensor:
        px, vx, py, vy, w = state.unbind(-1)
        a = w * dt
        t = turn_terms(a)
        S, C = dt * t.f, dt * t.h
        sin, cos = torch.sin(a), torch.cos(a)
        return torch.stack(
            torch.broadcast_tensors(
                px + S * vx - C * vy, cos * vx - sin * vy, py + C * vx + S * vy, sin * vx + cos * vy, w
            ),
            dim=-1,
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad: Tensor):
        state, dt = ctx.saved_tensors
        _, vx, _, vy, w = state.unbind(-1)
        g_px, g_vx, g_py, g_vy, g_w = grad.unbind(-1)
        a = w * dt
        t = turn_terms(a)
        S, C = dt * t.f, dt * t.h
        sin, cos = torch.sin(a), torch.cos(a)

        d_vx = S * g_px + cos * g_vx + C * g_py + sin * g_vy
        d_vy = -C * g_px - sin * g_vx + S * g_py + cos * g_vy
        along = g_px * vx + g_py * vy       # multiplies S
        across = g_py * vx - g_px * vy      # multiplies C
        d_a = g_vx * (-sin * vx - cos * vy) + g_vy * (cos * vx - sin * vy)
        d_w = g_w + dt * dt * (along * t.df + across * t.dh) + dt * d_a
        d_dt = along * cos + across * sin + w * d_a

        d_state = torch.stack(torch.broadcast_tensors(g_px, d_vx, g_py, d_vy, d_w), dim=-1)
        return d_state.sum_to_size(state.shape), d_dt.sum_to_size(dt.shape)


def coordinated_turn(state: Tensor, dt: Tensor) -> Tensor:
    """Propagate ``(..., 5)`` states by ``dt`` (0-d, or broadcastable with the batch shape)."""
    return CoordinatedTurn.apply(state, dt)


_EXPONENT = 0.687
_NEWTON_STEPS = 30


class SettlingVelocity(torch.autograd.Function):
    r"""Terminal velocity of a sphere with Schiller-Naumann drag.

    Solves :math:`w (1 + 0.15\,\mathrm{Re}^{0.687}) = w_s`, with the Stokes velocity
    :math:`w_s = (\rho_p - \rho_f) g d^2 / (18 \mu)` and :math:`\mathrm{Re} = \rho_f |w| d / \mu`.
    The sign follows the buoyancy (positive: sinking). The backward pass differentiates the force balance, not the
    Newton iterations.
    """

    @staticmethod
    def forward(ctx, diameter, rho_p, rho_f, mu):
        stokes = (rho_p - rho_f) * STANDARD_GRAVITY * diameter ** 2 / (18.0 * mu)
        c = 0.15 * (rho_f * diameter / mu) ** _EXPONENT
        target = stokes.abs()
        v = target.clone()
        for _ in range(_NEWTON_STEPS):
            drag = c * v ** _EXPONENT
            residual = v * (1 + drag) - target
            v = v - residual / (1 + (1 + _EXPONENT) * drag)
        ctx.save_for_backward(diameter, rho_p, rho_f, mu, v)
        return torch.sign(stokes) * v

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        diameter, rho_p, rho_f, mu, v = ctx.saved_tensors
        per_density = STANDARD_GRAVITY * diameter ** 2 / (18.0 * mu)
        stokes = (rho_p - rho_f) * per_density
        drag = 0.15 * (rho_f * diameter / mu) ** _EXPONENT * v ** _EXPONENT
        lam = grad / (1 + (1 + _EXPONENT) * drag)
        # the drag at fixed velocity grows with (rho_f d / mu)^0.687
        w_drag = torch.sign(stokes) * v * drag * _EXPONENT
        d_diameter = lam * (2.0 * stokes - w_drag) / diameter
        d_rho_p = lam * per_density
        d_rho_f = -lam * (per_density + w_drag / rho_f)
        d_mu = lam * (w_drag - stokes) / mu
        return (
            d_diameter.sum_to_size(diameter.shape),
            d_rho_p.sum_to_size(rho_p.shape),
            d_rho_f.sum_to_size(rho_f.shape),
            d_mu.sum_to_size(mu.shape),
        )


def settling_velocity(diameter: Tensor, rho_p: Tensor, rho_f: Tensor, mu: Tensor) -> Tensor:
    """Settling velocity in m/s; SI units, all arguments positive tensors that broadcast."""
    return SettlingVelocity.apply(diameter, rho_p, rho_f, mu)
