"""A measuring bench for clarinets: the reed, the slit behind it, the open holes.

SI units throughout.
"""
import math
from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

AIR_DENSITY = 1.2
# end correction of a tone hole, in hole radii, both ends together
END_CORRECTION = {"flanged": 1.5, "rounded": 1.1}


@dataclass(frozen=True)
class Slit:
    width: float = 0.0125
    soft: float = 20.0     # (m/s)^2, rounds the square root off at no pressure


def sound_speed(celsius):
    return 331.3 * torch.sqrt(1 + celsius / 273.15)


def slit_flow(slit: Slit):
    """Returns the slit's Function: (pressure, opening, compliance) -> volume flow."""
    return lambda pressure, opening, compliance: SlitFlow.apply(pressure, opening, compliance, slit)


class SlitFlow(Function):
    """Volume flow through the slit between reed and lay.

    A pressure difference (mouth minus mouthpiece) bends the reed inwards by
    ``compliance * pressure`` and shuts the slit at ``opening``; a shut slit
    passes nothing.  The flow runs backwards at negative differences. The three
    tensors broadcast.
    """

    @staticmethod
    def forward(ctx, pressure, opening, compliance, slit):
        ctx.save_for_backward(pressure, opening, compliance)
        ctx.slit = slit
        height = (opening - compliance * pressure).clamp(min=0)
        s = 2 * pressure / AIR_DENSITY
        return slit.width * height * s * (s * s + slit.soft**2) ** -0.25

    @staticmethod
    def backward(ctx, g):
        pressure, opening, compliance = ctx.saved_tensors
        w, soft = ctx.slit.width, ctx.slit.soft
        height = opening - compliance * pressure
        is_open = (height > 0).to(g.dtype)
        height = height * is_open
        s = 2 * pressure / AIR_DENSITY
        q = s * s + soft**2
        speed = s * q**-0.25
        slope = (0.5 * s * s + soft**2) * q**-1.25 * (2 / AIR_DENSITY)
        d_height = g * w * speed * is_open
        d_pressure = g * w * height * slope - d_height * compliance
        d_compliance = -d_height * pressure
        return (d_pressure.sum_to_size(pressure.shape), d_height.sum_to_size(opening.shape),
                d_compliance.sum_to_size(compliance.shape), None)


def _chimney(height, hole, end="flanged"):
    """Effective height of a hole's chimney and its slope in the hole's radius."""
    k = END_CORRECTION[end]
    return height + k * hole, k


class LatticeCutoff(Function):
    """Frequency above which a row of open holes lets the sound out.

    bore, hole: radii; spacing: half the distance between neighbours; chimney:
    wall thickness; celsius: temperature of the air. All of one shape (holes,).
    `end` says how the rims are finished, "flanged" or "rounded".
    """

    @staticmethod
    def forward(ctx, bore, hole, spacing, chimney, celsius, end="flanged"):
        height, _ = _chimney(chimney, hole, end)
        cutoff = sound_speed(celsius) / (2 * math.pi) * hole / bore / torch.sqrt(2 * spacing * height)
        ctx.save_for_backward(bore, hole, spacing, chimney, celsius, cutoff)
        ctx.end = end
        return cutoff

    @staticmethod
    def backward(ctx, g):
        bore, hole, spacing, chimney, celsius, cutoff = ctx.saved_tensors
        height, slope = _chimney(chimney, hole)
        up = g * cutoff
        return (
            -up / bore,
            up * (1 / hole - 0.5 * slope / height),
            -0.5 * up / spacing,
            -0.5 * up / height,
            0.5 * up / (273.15 + celsius),
            None,
        )


class ReedMotion(Function):
    """
    Motion of a driven reed in steps of `dt` (semi-implicit Euler):

        a = drive - damping * v - stiffness * x - hardening * x**3
        v <- v + dt * a
        x <- x + dt * v

    drive: (steps, reeds); the other five: (reeds,). Two results, the traces of
    x and v after each step, each (steps, reeds).
    """

    @staticmethod
    def forward(ctx, drive, x0, v0, damping, stiffness, hardening, dt):
        x, v = x0, v0
        xs, vs = [], []
        for f in drive.unbind(0):
            a = f - damping * v - stiffness * x - hardening * x**3
            v = v + dt * a
            x = x + dt * v
            xs.append(x)
            vs.append(v)
        xs, vs = torch.stack(xs), torch.stack(vs)
        ctx.save_for_backward(x0, v0, damping, stiffness, hardening, xs, vs)
        ctx.dt = dt
        return xs, vs

    @staticmethod
    @once_differentiable
    def backward(ctx, g_x, g_v):
        x0, v0, damping, stiffness, hardening, xs, vs = ctx.saved_tensors
        dt = ctx.dt
        lam_x, lam_v = torch.zeros_like(x0), torch.zeros_like(v0)
        d_drive = torch.empty_like(xs)
        d_damp, d_stiff, d_hard = (torch.zeros_like(x0) for _ in range(3))
        for n in range(xs.shape[0] - 1, -1, -1):
            x = xs[n - 1] if n else x0
            v = vs[n - 1] if n else v0
            lam_x = lam_x + g_x[n]
            lam_v = lam_v + g_v[n] + dt * lam_x
            force = dt * lam_v
            d_drive[n] = force
            d_damp -= force * v
            d_stiff -= force * x
            d_hard -= force * x**3
            lam_x = lam_x - force * (stiffness + 3 * hardening * x * x)
            lam_v = lam_v - force * damping
        return d_drive, lam_x, lam_v, d_damp, d_stiff, d_hard, None


def fit_lattice(measured, bore, hole, spacing, chimney, celsius, end="rounded", steps=200, lr=0.02):
    """Adjust hole radii until the cutoffs match the measured ones."""
    log_hole = hole.log().clone().requires_grad_()
    opt = torch.optim.Adam([log_hole], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        cutoff = LatticeCutoff.apply(bore, log_hole.exp(), spacing, chimney, celsius, end)
        loss = ((cutoff / measured).log() ** 2).sum()
        loss.backward()
        opt.step()
    return log_hole.detach().exp()
