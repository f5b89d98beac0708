"""Power models for road cycling: resistive load, work-above-critical-power balance, normalized power.

Riders run along the first axis, samples (1 Hz unless told otherwise) along the last one.
"""
from dataclasses import dataclass

import torch
from torch import nn
from torch.autograd.function import once_differentiable

GRAVITY = 9.80665


@dataclass(frozen=True)
class Environment:
    air_density: float = 1.225
    drivetrain: float = 0.976


class RoadLoadPower(torch.autograd.Function):
    """Pedal power that holds a ground speed.

    All tensors broadcast against each other; the usual shapes are

        speed   (riders, samples)   m/s, ground speed, >= 0
        grade   (samples,)          rise over run, signed
        wind    (samples,)          m/s, head wind positive, tail wind negative
        mass    (riders, 1)         kg, rider and bicycle
        cda     (riders, 1)         m^2
        crr     () or (riders, 1)   rolling coefficient

    A tail wind stronger than the ground speed pushes: the drag force keeps the
    sign of the air speed.
    """

    @staticmethod
    def forward(speed, grade, wind, mass, cda, crr, env):
        air = speed + wind
        hyp = torch.sqrt(1 + grade * grade)
        weight = mass * GRAVITY
        force = weight * (grade + crr) / hyp + 0.5 * env.air_density * cda * air * air.abs()
        return speed * force / env.drivetrain

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, env = inputs
        ctx.save_for_backward(*tensors)
        ctx.env = env

    @staticmethod
    def backward(ctx, grad_power):
        speed, grade, wind, mass, cda, crr = ctx.saved_tensors
        rho = ctx.env.air_density
        g = grad_power / ctx.env.drivetrain
        air = speed + wind
        hyp = torch.sqrt(1 + grade * grade)
        weight = mass * GRAVITY
        drag = 0.5 * rho * cda * air * air.abs()
        ddrag = rho * cda * air.abs()

        g_force = g * speed
        g_air = g_force * ddrag
        grads = [
            g * (weight * (grade + crr) / hyp + drag) + g_air,
            g_force * weight * (1 - crr * grade) / hyp**3,
            g_air,
            g_force * GRAVITY * (grade + crr) / hyp,
            g_force * 0.5 * rho * air * air.abs(),
            g_force * weight / hyp,
        ]
        like = (speed, grade, wind, mass, cda, crr)
        return (*(d.sum_to_size(t.shape) for d, t in zip(grads, like)), None)


class WPrimeBalance(torch.autograd.Function):
    """Skiba's differential W' balance; power (riders, samples), cp and w_prime (riders,)."""

    @staticmethod
    def forward(ctx, power, cp, w_prime, dt=1.0):
        w = w_prime
        before, after = [], []
        for t in range(power.shape[1]):
            spare = cp - power[:, t]
            before.append(w)
            refill = torch.where(spare > 0, 1 - w / w_prime, torch.ones_like(w))
            w = w + spare * refill * dt
            after.append(w)
        ctx.save_for_backward(power, cp, w_prime, torch.stack(before, 1))
        ctx.dt = dt
        return torch.stack(after, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_balance):
        power, cp, w_prime, before = ctx.saved_tensors
        dt = ctx.dt
        grad_power = torch.empty_like(power)
        grad_cp = torch.zeros_like(cp)
        carry = torch.zeros_like(w_prime)
        for t in reversed(range(power.shape[1])):
            carry = carry + grad_balance[:, t]
            spare = cp - power[:, t]
            recovering = spare > 0
            refill = torch.where(recovering, 1 - before[:, t] / w_prime, torch.ones_like(carry))
            d_spare = carry * refill * dt
            grad_power[:, t] = -d_spare
            grad_cp += d_spare
            carry = torch.where(recovering, carry * (1 - spare * dt / w_prime), carry)
        return grad_power, grad_cp, carry, None


def _trailing_sum(x, window):
    total = torch.cumsum(x, dim=-1)
    if window >= x.shape[-1]:
        return total
    return torch.cat([total[..., :window], total[..., window:] - total[..., :-window]], dim=-1)


class NormalizedPower(torch.autograd.Function):
    @staticmethod
    def forward(ctx, power, valid, window=30):
        m = valid.to(power.dtype)
        counts = _trailing_sum(m, window).clamp(min=1)
        rolling = _trailing_sum(power * m, window) / counts * m
        n = m.sum(-1, keepdim=True).clamp(min=1)
        np_ = (rolling.pow(4).sum(-1, keepdim=True) / n).pow(0.25)
        ctx.save_for_backward(m, counts, rolling, n, np_)
        ctx.window = window
        return np_.squeeze(-1)

    @staticmethod
    def backward(ctx, g):
        m, counts, rolling, n, np_ = ctx.saved_tensors
        ratio = torch.where(np_ > 0, rolling / np_.clamp(min=torch.finfo(np_.dtype).tiny), 0.0)
        g_roll = g.unsqueeze(-1) * ratio.pow(3) * m / (n * counts)
        g_power = _trailing_sum(g_roll.flip(-1), ctx.window).flip(-1)
        return g_power * m, None, None


class RideModel(nn.Module):
    """Speed and course to the reserve left at each sample and the ride's normalized power."""

    def __init__(self, riders, env=Environment(), window=30):
        super().__init__()
        self.env, self.window = env, window
        self.cda = nn.Parameter(torch.full((riders, 1), 0.32))
        self.crr = nn.Parameter(torch.tensor(0.004))
        self.cp = nn.Parameter(torch.full((riders,), 270.0))
        self.w_prime = nn.Parameter(torch.full((riders,), 18000.0))

    def forward(self, speed, grade, wind, mass, valid):
        p = RoadLoadPower.apply(speed, grade, wind, mass, self.cda, self.crr, self.env)
        return WPrimeBalance.apply(p, self.cp, self.w_prime), NormalizedPower.apply(p, valid, self.window)
