r"""Figuring a telescope mirror by hand or on a machine.

Everything is in millimetres and radians per second unless it says otherwise.
The functions are meant for fitting: which radius, conic constant and stroke
explain what the tester showed last night?
"""
import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

PRESTON = 2.0e-7      # mm of glass per (kPa mm), pitch lap and cerium oxide
N_ANGLES = 24


class AsphereSag(Function):
    r"""Height of a conic with even polynomial terms above its vertex plane.

    .. math:: z = \frac{c r^2}{1 + \sqrt{1 - (1 + k) c^2 r^2}} + \sum_j a_j r^{4 + 2 j}

    ``r``, ``curvature`` and ``conic`` broadcast against each other; ``terms``
    is a vector (of length 0 for a plain conic). A flat has curvature 0.
    """

    @staticmethod
    def forward(r, curvature, conic, terms):
        r2 = r * r
        root = torch.sqrt(1 - (1 + conic) * curvature ** 2 * r2)
        z = curvature * r2 / (1 + root)
        for j in range(terms.shape[0]):
            z = z + terms[j] * r2 ** (2 + j)
        return z

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        r, c, k, terms = ctx.saved_tensors
        r2 = r * r
        root = torch.sqrt(1 - (1 + k) * c ** 2 * r2)
        slope = c * r / root
        powers = []
        for j in range(terms.shape[0]):
            slope = slope + (4 + 2 * j) * terms[j] * r ** (3 + 2 * j)
            powers.append((grad * r2 ** (2 + j)).sum())
        g_r = (grad * slope).sum_to_size(r.shape)
        g_c = (grad * r2 / (root * (1 + root))).sum_to_size(c.shape)
        g_k = (grad * c ** 3 * r2 ** 2 / (2 * root * (1 + root) ** 2)).sum_to_size(k.shape)
        g_terms = torch.stack(powers) if powers else torch.zeros_like(terms)
        return g_r, g_c, g_k, g_terms


class LapSpeed(Function):
    """Mean sliding speed between lap and glass on each zone.

    zones: (Z,) radii on the glass, all positive; spin: speed of the work
    table; lap_spin: speed of the lap about its own axis; overhang: distance
    between both axes, 0 for a lap that turns centred on the glass (all three scalars).
    """

    @staticmethod
    def forward(ctx, zones, spin, lap_spin, overhang):
        theta = torch.arange(N_ANGLES, dtype=zones.dtype, device=zones.device) * (2 * math.pi / N_ANGLES)
        cos, sin = theta.cos(), theta.sin()
        x, y = zones[:, None] * cos, zones[:, None] * sin
        slip = spin - lap_spin
        vx = -slip * y
        vy = slip * x + lap_spin * overhang
        speed = torch.sqrt(vx * vx + vy * vy)
        ctx.save_for_backward(x, y, cos, sin, vx / speed, vy / speed, slip, lap_spin, overhang)
        return speed.mean(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, y, cos, sin, ux, uy, slip, lap_spin, overhang = ctx.saved_tensors
        g_zones = grad * slip * (uy * cos - ux * sin).mean(dim=1)
        g_slip = (grad * (uy * x - ux * y).mean(dim=1)).sum()
        g_overhang = (grad * uy.mean(dim=1)).sum() * lap_spin
        return g_zones, g_slip, -g_slip, g_overhang


class FocogramRms(Function):
    """Root mean square of knife-edge readings about the best focus.

    Parameters
    ----------
    readings : (B, Z) transverse errors, one row a session
    zones : (Z,) zone radii; a defocus is proportional to them
    weights : (Z,) or (B, Z) positive weights, in any unit
    refocus : if False the knife stays where it was and no focus is removed

    Returns (B,).  A session without any error left has rms 0, and its
    gradient is taken as 0.
    """

    @staticmethod
    def forward(ctx, readings, zones, weights, refocus=True):
        w = weights.expand_as(readings)
        mass = w.sum(-1, keepdim=True)
        if refocus:
            focus = (w * readings * zones).sum(-1, keepdim=True) / (w * zones ** 2).sum(-1, keepdim=True)
        else:
            focus = torch.zeros_like(mass)
        left = readings - focus * zones
        square = (w * left ** 2).sum(-1, keepdim=True) / mass
        # what is left of a perfect session is rounding only
        dust = (16 * torch.finfo(readings.dtype).eps * readings.detach().abs().amax(-1, keepdim=True)) ** 2
        alive = square > dust
        rms = torch.where(alive, square.where(alive, torch.ones_like(square)).sqrt(), torch.zeros_like(square))
        ctx.save_for_backward(left, focus, w, mass, rms)
        ctx.weight_shape = weights.shape
        return rms.squeeze(-1)

    @staticmethod
    def backward(ctx, grad):
        left, focus, w, mass, rms = ctx.saved_tensors
        alive = rms > 0
        per = torch.where(alive, grad[:, None] / (mass * rms.where(alive, torch.ones_like(rms))),
                          torch.zeros_like(rms))
        # the focus is the minimiser, so it needs no term of its own
        g_readings = per * w * left
        g_zones = -(g_readings * focus).sum(0)
        g_weights = 0.5 * per * (left ** 2 - rms ** 2)
        return g_readings, g_zones, g_weights.sum_to_size(ctx.weight_shape), None


def removal(zones, pressure, dwell, spin, lap_spin, overhang):
    """Depth of glass removed in ``dwell`` seconds (Preston's law)."""
    return PRESTON * pressure * dwell * LapSpeed.apply(zones, spin, lap_spin, overhang)


def main():
    zones = torch.linspace(10.0, 100.0, 7, dtype=torch.float64)
    one = lambda v: torch.tensor(v, dtype=torch.float64, requires_grad=True)
    k = one(-0.7)
    z = AsphereSag.apply(zones, one(1 / 2400.0), k, torch.zeros(0, dtype=torch.float64))
    print("edge sag", z[-1].item())
    print("rates", removal(zones, 3.0, 60.0, one(2.0), one(1.2), one(35.0)).tolist())


if __name__ == "__main__":
    main()
