"""Blocks of a field oriented induction motor drive, for tuning through simulation."""
from typing import NamedTuple

import torch
from torch.autograd import Function


class Circuit(NamedTuple):
    r1: torch.Tensor
    r2: torch.Tensor
    x: torch.Tensor


def _unbroadcast(grad, like):
    return grad.sum_to_size(like.shape)


def _turn(vec, cos, sin):
    d, q = vec[..., 0], vec[..., 1]
    return torch.stack((cos * d - sin * q, sin * d + cos * q), -1)


class RotorFluxObserver(Function):
    """Current-model flux observer in a frame that slips against the rotor.

    psi[t+1] = e * R(slip[t] * dt) @ psi[t] + (1 - e) * lm * i[t],   e = exp(-dt / tau)

    Args:
        current: (B, T, 2) stator current, d and q.
        slip: (B, T) electrical slip speed in rad/s.
        psi0: (B, 2) flux at the start.
        tau: (B,) or (1,) rotor time constant in s, positive.
        lm, dt: floats, magnetising inductance and step.

    Returns the flux after every step (B, T, 2) and the flux at the end (B, 2).
    """

    @staticmethod
    def forward(ctx, current, slip, psi0, tau, lm, dt):
        e = torch.exp(-dt / tau).unsqueeze(-1)
        cos, sin = torch.cos(slip * dt), torch.sin(slip * dt)
        psi, path = psi0, []
        for t in range(current.shape[1]):
            psi = e * _turn(psi, cos[:, t], sin[:, t]) + (1 - e) * lm * current[:, t]
            path.append(psi)
        path = torch.stack(path, 1)
        ctx.save_for_backward(current, cos, sin, psi0, tau, path)
        ctx.lm, ctx.dt = lm, dt
        return path, psi.clone()

    @staticmethod
    def backward(ctx, g_path, g_end):
        current, cos, sin, psi0, tau, path = ctx.saved_tensors
        lm, dt = ctx.lm, ctx.dt
        e = torch.exp(-dt / tau).unsqueeze(-1)
        carry = g_end
        g_current = torch.empty_like(current)
        g_slip = torch.empty_like(cos)
        g_e = torch.zeros_like(psi0[:, 0])
        for t in reversed(range(current.shape[1])):
            carry = carry + g_path[:, t]
            before = path[:, t - 1] if t else psi0
            turned = _turn(before, cos[:, t], sin[:, t])
            g_current[:, t] = (1 - e) * lm * carry
            g_e = g_e + (carry * (turned - lm * current[:, t])).sum(-1)
            quarter = torch.stack((-turned[:, 1], turned[:, 0]), -1)
            g_slip[:, t] = dt * (carry * e * quarter).sum(-1)
            carry = e * _turn(carry, cos[:, t], sin[:, t])
        g_tau = _unbroadcast(g_e * e.squeeze(-1) * dt / tau**2, tau)
        return g_current, g_slip, carry, g_tau, None, None


class SlipTorque(Function):
    """Steady torque of the equivalent circuit; fine at standstill and at synchronous speed."""

    @staticmethod
    def forward(slip, volts, r1, r2, x, sync_speed):
        den = (r1 * slip + r2) ** 2 + (slip * x) ** 2
        return 3 * volts**2 * r2 * slip / (sync_speed * den)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.sync_speed = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, g):
        slip, volts, r1, r2, x = ctx.saved_tensors
        series = r1 * slip + r2
        den = series**2 + (slip * x) ** 2
        k = 3 * volts / (ctx.sync_speed * den)
        torque_by_den = k * volts * r2 * slip / den
        d_slip = k * volts * r2 - torque_by_den * (2 * series * r1 + 2 * slip * x**2)
        d_volts = 2 * k * r2 * slip
        d_r1 = -torque_by_den * 2 * series * slip
        d_r2 = k * volts * slip - torque_by_den * 2 * series
        d_x = -torque_by_den * 2 * slip**2 * x
        partials = (d_slip, d_volts, d_r1, d_r2, d_x)
        grads = [
            _unbroadcast(g * d, leaf) if need else None
            for d, leaf, need in zip(partials, ctx.saved_tensors, ctx.needs_input_grad)
        ]
        return (*grads, None)


def steady_torque(slip, volts, circuit: Circuit, sync_speed=157.08):
    return SlipTorque.apply(slip, volts, *circuit, sync_speed)


class VoltageCircleLimit(Function):
    # v (..., 2), vmax (...); the axis with priority gets up to `reserve` of vmax, the other the rest
    @staticmethod
    def forward(ctx, v, vmax, priority="d", reserve=0.95):
        first, second = v.unbind(-1) if priority == "d" else v.flip(-1).unbind(-1)
        cap = reserve * vmax
        a = torch.maximum(torch.minimum(first, cap), -cap)
        room = torch.sqrt(vmax**2 - a**2)
        b = torch.maximum(torch.minimum(second, room), -room)
        ctx.save_for_backward(first, second, vmax, a, room)
        ctx.priority, ctx.reserve = priority, reserve
        out = torch.stack((a, b), -1)
        return out if priority == "d" else out.flip(-1)

    @staticmethod
    def backward(ctx, grad):
        first, second, vmax, a, room = ctx.saved_tensors
        ga, gb = grad.unbind(-1)
        a_held = first.abs() > ctx.reserve * vmax
        b_held = second.abs() > room
        g_room = torch.where(b_held, gb * second.sign(), torch.zeros_like(gb))
        ga = ga - g_room * a / room
        g_first = torch.where(a_held, torch.zeros_like(ga), ga)
        g_second = torch.where(b_held, torch.zeros_like(gb), gb)
        g_vmax = g_room * vmax / room + torch.where(a_held, ga * first.sign() * ctx.reserve, torch.zeros_like(ga))
        gv = torch.stack((g_first, g_second), -1)
        if ctx.priority != "d":
            gv = gv.flip(-1)
        return gv, _unbroadcast(g_vmax, vmax), None, None
