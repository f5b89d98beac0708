# Chair-o-plane (swing carousel): static checks for a travelling ride.
#
# Chairs hang on chains of length L from a ring of radius R that turns with omega.
# The inspector wants (a) the angle of the chains, (b) the drive torque read from the data
# sheets of the motors that were fitted over the years, (c) how uneven the ring is loaded.
from typing import NamedTuple

import torch
from torch.autograd import Function

G = 9.80665


class Ride(NamedTuple):
    ring_radius: float = 5.2
    chain: float = 4.0
    chairs: int = 24


def _solve_angle(radius, chain, omega, steps=60):
    """Newton from above on tan(a) g = omega^2 (R + L sin a), 0 <= a < pi/2."""
    w2 = omega**2 / G
    # with u = tan(a): u = w2 (R + L u / sqrt(1 + u^2)); the right side is concave in u
    u = w2 * (radius + chain)
    for _ in range(steps):
        root = torch.sqrt(1 + u * u)
        f = u - w2 * (radius + chain * u / root)
        df = 1 - w2 * chain / root**3
        u = u - f / df
    return torch.atan(u)


class ChainAngle(Function):
    """Angle from the vertical, radians.  All three arguments have one shape; radius > 0."""

    @staticmethod
    def forward(ctx, radius, chain, omega):
        angle = _solve_angle(radius, chain, omega)
        ctx.save_for_backward(radius, chain, omega, angle)
        return angle

    @staticmethod
    def backward(ctx, g):
        radius, chain, omega, a = ctx.saved_tensors
        w2 = omega**2
        sin, cos = torch.sin(a), torch.cos(a)
        slope = G / cos**2 - w2 * chain * cos
        v = g / slope
        return v * w2, v * w2 * sin, v * 2 * omega * (radius + chain * sin)


class SheetTorque(Function):
    """Torque from data sheets by linear interpolation.

    speed   [N]     shaft speed of each reading
    model   [N]     int64, which sheet
    knots   [K]     increasing speeds (constants), common to all sheets
    sheet   [M, K]  torques
    Beyond the first and the last knot the torque is held.
    """

    @staticmethod
    def forward(ctx, speed, model, knots, sheet):
        inside = (speed > knots[0]) & (speed < knots[-1])
        held = torch.minimum(torch.maximum(speed, knots[0]), knots[-1])
        right = torch.searchsorted(knots, held.detach().contiguous(), right=True)
        right = right.clamp(1, len(knots) - 1)
        left = right - 1
        width = knots[right] - knots[left]
        frac = (held - knots[left]) / width
        lo, hi = sheet[model, left], sheet[model, right]
        ctx.save_for_backward(inside, left, right, model, width, frac, lo, hi)
        ctx.sheet_shape = sheet.shape
        return lo + frac * (hi - lo)

    @staticmethod
    def backward(ctx, g):
        inside, left, right, model, width, frac, lo, hi = ctx.saved_tensors
        g_speed = torch.where(inside, g * (hi - lo) / width, torch.zeros_like(g))
        g_sheet = g.new_zeros(ctx.sheet_shape)
        g_sheet.index_put_((model, left), g * (1 - frac), accumulate=True)
        g_sheet.index_put_((model, right), g * frac, accumulate=True)
        return g_speed, None, None, g_sheet


TRIANGLE = (1.0, 2.0, 3.0, 2.0, 1.0)


class RingUnevenness(Function):
    """Load of every chair over the weighted mean of its neighbourhood, less one.

    loads [..., chairs], in order around the ring (the last chair is next to the first).
    weights [2m + 1], the middle one belongs to the chair itself and the first to the chair m
    places behind; they need not sum to one, and may lean towards the chairs in front, as
    the wind does.  The weights are constants.
    """

    @staticmethod
    def forward(ctx, loads, weights):
        m = (len(weights) - 1) // 2
        w = weights / weights.sum()
        mean = sum(w[k] * torch.roll(loads, m - k, -1) for k in range(2 * m + 1))
        ctx.save_for_backward(loads, mean, w)
        return loads / mean - 1

    @staticmethod
    def backward(ctx, g):
        loads, mean, w = ctx.saved_tensors
        m = (len(w) - 1) // 2
        g_mean = -g * loads / mean**2
        back = sum(w[k] * torch.roll(g_mean, m - k, -1) for k in range(2 * m + 1))
        return g / mean + back, None


def unevenness(loads, weights=None):
    if weights is None:
        weights = torch.tensor(TRIANGLE, dtype=loads.dtype)
    return RingUnevenness.apply(loads, weights)


def main():
    ride = Ride()
    one = torch.ones(3, dtype=torch.float64)
    omega = torch.tensor([0.5, 1.0, 1.4], dtype=torch.float64, requires_grad=True)
    angle = ChainAngle.apply(ride.ring_radius * one, ride.chain * one, omega)
    angle.sum().backward()
    print("angles", torch.rad2deg(angle).tolist())
    print("per rad/s", omega.grad.tolist())


if __name__ == "__main__":
    main()
