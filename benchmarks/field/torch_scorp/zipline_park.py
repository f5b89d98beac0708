"""Calculations for a zip-line park: cable dip, rider speed, dispatching.

SI units; angles in radians, positive downhill.
"""
from typing import NamedTuple

import torch
from torch.autograd import Function

G = 9.81


class Line(NamedTuple):
    name: str
    span: float        # m, horizontal
    drop: float        # m, start above landing; negative for a line that climbs
    rest: float        # m of unloaded cable
    ea: float          # N, axial stiffness


CANYON = Line("canyon", 180.0, 14.0, 180.6, 9.0e6)
KIDS = Line("kids", 42.0, 2.1, 41.9, 5.5e6)


def _tension_pull(y, place, span, rest, ea):
    left = torch.sqrt((place * span) ** 2 + y**2)
    right = torch.sqrt(((1 - place) * span) ** 2 + y**2)
    tension = ea * (left + right - rest) / rest
    return tension, 1 / left + 1 / right, left, right


def _pull_slope(y, tension, inv, left, right, rest, ea):
    return (ea / rest * y * inv) * y * inv + tension * (inv - y**2 * (left**-3 + right**-3))


class RiderDip(Function):
    """How far (m) a rider hangs below the saddles when the trolley stands at a place of the cable.

    The cable is elastic and light beside the rider; its saddles are level.  The dip solves
    tension(y) * y * (1/left + 1/right) = load.  All inputs have one shape:
    load N, place as a fraction of the span in (0, 1), span m, rest length m of the unloaded cable
    (shorter than the span if it is pre-tensioned, longer if it hangs slack), ea stiffness in N.
    """

    @staticmethod
    def forward(load, place, span, rest, ea):
        with torch.no_grad():
            low, high = torch.zeros_like(load), span + rest
            for _ in range(80):
                y = (low + high) / 2
                tension, inv, _, _ = _tension_pull(y, place, span, rest, ea)
                deep = tension.clamp(min=0) * y * inv > load
                low, high = torch.where(deep, low, y), torch.where(deep, y, high)
        for _ in range(2):
            tension, inv, left, right = _tension_pull(y, place, span, rest, ea)
            y = y - (tension * y * inv - load) / _pull_slope(y, tension, inv, left, right, rest, ea)
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, g):
        load, place, span, rest, ea, y = ctx.saved_tensors
        tension, inv, left, right = _tension_pull(y, place, span, rest, ea)
        lam = -g / _pull_slope(y, tension, inv, left, right, rest, ea)
        # derivative of the pull by the two chords, then the chords by place and span
        by_left = ea / rest * y * inv - tension * y / left**2
        by_right = ea / rest * y * inv - tension * y / right**2
        dl, dr = place * span / left, (1 - place) * span / right
        g_place = lam * span * (by_left * dl - by_right * dr)
        g_span = lam * (by_left * dl * place + by_right * dr * (1 - place))
        g_rest = -lam * ea * (left + right) / rest**2 * y * inv
        g_ea = lam * tension / ea * y * inv
        return -lam, g_place, g_span, g_rest, g_ea


class TrolleyRun(Function):
    """Speed of riders along the line, Euler steps of ``dt`` seconds.

        v' = G sin(angle) - drag v |v| - roll v

    angles: (steps,) local slope of the cable at each step, the same for all riders;
    v0: (riders,) push at the start; drag: (riders,) 1/m; roll: scalar tensor 1/s.
    Returns (riders, steps + 1) speeds.  A light rider may stall on the rising end of the line and
    roll back towards the belly of the cable: speeds then are negative.
    """

    @staticmethod
    def forward(angles, v0, drag, roll, dt=0.25):
        v, out = v0, [v0]
        for t in range(angles.shape[0]):
            v = v + dt * (G * torch.sin(angles[t]) - drag * v * v.abs() - roll * v)
            out.append(v)
        return torch.stack(out, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        angles, _, drag, roll, dt = inputs
        ctx.save_for_backward(angles, drag, roll, output)
        ctx.dt = dt

    @staticmethod
    def backward(ctx, g):
        angles, drag, roll, vs = ctx.saved_tensors
        dt = ctx.dt
        lam = g[:, -1]
        g_ang = torch.zeros_like(angles)
        g_drag = torch.zeros_like(drag)
        g_roll = torch.zeros_like(roll)
        for t in range(angles.shape[0] - 1, -1, -1):
            v = vs[:, t]
            g_ang[t] = dt * G * torch.cos(angles[t]) * lam.sum()
            g_drag = g_drag - dt * lam * v * v.abs()
            g_roll = g_roll - dt * (lam * v).sum()
            lam = g[:, t] + lam * (1 - dt * (2 * drag * v + roll))
        return g_ang, lam, g_drag, g_roll, None


class DispatchSpacing(Function):
    """Soft minimum of the time between riders at the landing platform.

    landing: (..., n) landing times of n >= 2 riders in the order of their tickets, which is not the
    order in which they land (several parallel cables, different weights).
    softness: seconds, how sharply the smallest gap counts.
    """

    @staticmethod
    def forward(ctx, landing, softness=2.0):
        times, order = landing.sort(-1)
        gaps = times.diff(dim=-1)
        ctx.save_for_backward(order, torch.softmax(-gaps / softness, -1))
        return -softness * torch.logsumexp(-gaps / softness, -1)

    @staticmethod
    def backward(ctx, g):
        order, weight = ctx.saved_tensors
        share = g[..., None] * weight
        edge = torch.zeros_like(share[..., :1])
        by_time = torch.cat([edge, share], -1) - torch.cat([share, edge], -1)
        return by_time.gather(-1, order), None


def dip(line: Line, rider_kg: float = 80.0, place: float = 0.5) -> float:
    values = (rider_kg * G, place, line.span, line.rest, line.ea)
    return float(RiderDip.apply(*(torch.tensor(v, dtype=torch.float64) for v in values)))


def slopes(line: Line, steps: int) -> torch.Tensor:
    """Slope along the line, steep at the start and rising at the end."""
    u = torch.linspace(0, 1, steps)
    return torch.atan(line.drop / line.span + 4 * dip(line) / line.span * (1 - 2 * u))


def main():
    for line in (CANYON, KIDS):
        v = TrolleyRun.apply(slopes(line, 80), torch.tensor([1.0, 2.0]), torch.tensor([4e-3, 9e-3]),
                             torch.tensor(0.02), 0.25)
        print(f"{line.name}: dip {dip(line):.2f} m, top speed {float(v.max()):.1f} m/s")


if __name__ == "__main__":
    main()
