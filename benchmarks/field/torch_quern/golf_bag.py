"""Club fitting and shot value.

Three things a fitter's software computes on every swing: the static build
numbers of a club, where the ball goes, and what the shot is worth against a
benchmark of expected strokes.  All three have hand-derived gradients because
the fitting loop calls them tens of thousands of times on a tablet.

SI units unless a name says otherwise; distances on the course are in yards.
"""

from __future__ import annotations

import enum
import math
from functools import lru_cache
from typing import Dict, Tuple

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

GRAVITY = 9.80665
YARD = 0.9144
BALL_MASS = 0.04593
BALL_RADIUS = 0.02135
GRIP_CENTRE = 0.115
FULCRUM = 0.3556  # 14 inches from the butt


class Lie(enum.IntEnum):
    TEE = 0
    FAIRWAY = 1
    ROUGH = 2
    SAND = 3
    GREEN = 4


HOLED = -1
KNOTS_YD: Tuple[float, ...] = (2.0, 10.0, 20.0, 60.0, 100.0, 160.0, 220.0, 300.0, 400.0)
BENCHMARK = (
    (2.10, 2.20, 2.35, 2.70, 2.92, 3.00, 3.25, 3.71, 3.99),
    (2.05, 2.18, 2.40, 2.70, 2.80, 2.98, 3.32, 3.78, 4.11),
    (2.15, 2.34, 2.59, 2.91, 3.02, 3.23, 3.53, 3.90, 4.30),
    (2.25, 2.43, 2.53, 3.15, 3.23, 3.40, 3.68, 4.04, 4.55),
    (1.40, 1.87, 2.10, 2.50, 2.80, 3.20, 3.60, 4.00, 4.40),
)


def expected_strokes(table, knots, distance, lie):
    """Read the benchmark: flat inside the first knot, last slope carried on.

    Returns the value, the knot index and the weight of the upper knot.
    """
    grid = torch.tensor(knots, dtype=table.dtype, device=table.device)
    seat = (torch.searchsorted(grid, distance.contiguous(), right=True) - 1).clamp(0, len(knots) - 2)
    weight = ((distance - grid[seat]) / (grid[seat + 1] - grid[seat])).clamp(min=0.0)
    row = lie.clamp(min=0)
    value = (1.0 - weight) * table[row, seat] + weight * table[row, seat + 1]
    return torch.where(lie == HOLED, torch.zeros_like(value), value), seat, weight


class StrokesGained(Function):
    """Strokes gained by each shot against a benchmark.

    Args:
        table: expected strokes to hole out, one row per lie, one column per knot.
        start: distances to the hole before the shots.
        finish: distances after them.
        start_lie: integer lies before.
        finish_lie: integer lies after, ``HOLED`` when the ball is in.
        knots: distances of the table's columns, as a tuple.

    Returns:
        ``E(start) - E(finish) - 1`` for each shot.  Shots from beyond the
        longest knot (par fives) use the last slope of their row.
    """

    @staticmethod
    def forward(ctx, table, start, finish, start_lie, finish_lie, knots=KNOTS_YD):
        before, seat_a, weight_a = expected_strokes(table, knots, start, start_lie)
        after, seat_b, weight_b = expected_strokes(table, knots, finish, finish_lie)
        ctx.save_for_backward(
            table, start, finish, start_lie, finish_lie, seat_a, seat_b, weight_a, weight_b
        )
        ctx.knots = knots
        return before - after - 1.0

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (table, start, finish, start_lie, finish_lie, seat_a, seat_b, weight_a, weight_b) = ctx.saved_tensors
        grid = torch.tensor(ctx.knots, dtype=table.dtype, device=table.device)
        g_table = torch.zeros_like(table)

        def side(g, distance, lie, seat, weight):
            g = torch.where(lie == HOLED, torch.zeros_like(g), g)
            row = lie.clamp(min=0)
            g_table.index_put_((row, seat), g * (1.0 - weight), accumulate=True)
            g_table.index_put_((row, seat + 1), g * weight, accumulate=True)
            slope = (table[row, seat + 1] - table[row, seat]) / (grid[seat + 1] - grid[seat])
            sloped = (distance > grid[0]) & (distance < grid[-1])
            return g * slope * sloped

        g_start = side(grad, start, start_lie, seat_a, weight_a)
        g_finish = side(-grad, finish, finish_lie, seat_b, weight_b)
        return g_table, g_start, g_finish, None, None, None


class ClubAssembly(Function):
    """Build sheet of assembled clubs.

    shaft: (B, M) masses of equal pieces from butt to tip; head, grip, length: (B,).
    ``pivot`` is how far beyond the butt the club turns (0 for a bench jig,
    about 0.6 for a hands-and-arms model).

    Returns total mass, balance point from the butt, swing weight moment about
    the fulcrum and moment of inertia about the pivot, each (B,).
    """

    @staticmethod
    def forward(ctx, shaft, head, grip, length, pivot=0.0, fulcrum=FULCRUM):
        pieces = shaft.shape[-1]
        station = (torch.arange(pieces, dtype=shaft.dtype, device=shaft.device) + 0.5) / pieces
        where = length[:, None] * station
        total = shaft.sum(-1) + head + grip
        first = (shaft * where).sum(-1) + head * length + grip * GRIP_CENTRE
        balance = first / total
        swing = first - total * fulcrum
        inertia = (
            (shaft * (where + pivot).square()).sum(-1)
            + head * (length + pivot).square()
            + grip * (GRIP_CENTRE + pivot) ** 2
        )
        ctx.save_for_backward(shaft, head, length, station, total, balance)
        ctx.pivot, ctx.fulcrum = pivot, fulcrum
        return total, balance, swing, inertia

    @staticmethod
    @once_differentiable
    def backward(ctx, g_total, g_balance, g_swing, g_inertia):
        shaft, head, length, station, total, balance = ctx.saved_tensors
        pivot = ctx.pivot
        where = length[:, None] * station
        g_first = g_balance / total + g_swing
        g_mass = g_total - g_balance * balance / total - g_swing * ctx.fulcrum

        g_shaft = (
            g_mass[:, None]
            + g_first[:, None] * where
            + g_inertia[:, None] * (where + pivot).square()
        )
        g_head = g_mass + g_first * length + g_inertia * (length + pivot).square()
        g_grip = g_mass + g_first * GRIP_CENTRE + g_inertia * (GRIP_CENTRE + pivot) ** 2
        g_where = shaft * (g_first[:, None] + 2.0 * g_inertia[:, None] * (where + pivot))
        g_length = (g_where * station).sum(-1) + head * (
            g_first + 2.0 * g_inertia * (length + pivot)
        )
        return g_shaft, g_head, g_grip, g_length, None, None


def _turn(vector: torch.Tensor) -> torch.Tensor:
    """Quarter turn anticlockwise in the vertical plane."""
    return torch.stack((-vector[:, 1], vector[:, 0]), -1)


@lru_cache(maxsize=None)
def make_ball_flight(steps: int = 120, dt: float = 0.05, air_density: float = 1.2):
    """Integrator of the ball's flight in the vertical plane, as a function.

    The returned ``fly(velocity, drag, lift, wind)`` takes (B, 2), (B,), (B,),
    (B,) and gives the position and the velocity (B, 2) after ``steps`` of the
    semi-implicit Euler rule.  ``wind`` is horizontal, positive when following.
    """
    k = 0.5 * air_density * math.pi * BALL_RADIUS**2 / BALL_MASS

    class BallFlight(Function):
        @staticmethod
        def forward(ctx, velocity, drag, lift, wind):
            breeze = torch.stack((wind, torch.zeros_like(wind)), -1)
            fall = torch.zeros_like(velocity)
            fall[:, 1] = -GRAVITY
            place = torch.zeros_like(velocity)
            tape = []
            for _ in range(steps):
                relative = velocity - breeze
                tape.append(relative)
                speed = relative.norm(dim=-1, keepdim=True)
                push = -drag[:, None] * relative + lift[:, None] * _turn(relative)
                velocity = velocity + dt * (k * speed * push + fall)
                place = place + dt * velocity
            ctx.save_for_backward(drag, lift, torch.stack(tape))
            return place, velocity

        @staticmethod
        @once_differentiable
        def backward(ctx, g_place, g_velocity):
            drag, lift, tape = ctx.saved_tensors
            g_drag = torch.zeros_like(drag)
            g_lift = torch.zeros_like(lift)
            g_wind = torch.zeros_like(drag)
            g_v = g_velocity
            for relative in tape.flip(0):
                g_v = g_v + dt * g_place
                g_acc = dt * k * g_v
                speed = relative.norm(dim=-1, keepdim=True)
                turned = _turn(relative)
                push = -drag[:, None] * relative + lift[:, None] * turned
                g_push = speed * g_acc
                g_speed = (g_acc * push).sum(-1, keepdim=True)
                g_drag = g_drag - (g_push * relative).sum(-1)
                g_lift = g_lift + (g_push * turned).sum(-1)
                g_rel = (
                    g_speed * relative / speed
                    - drag[:, None] * g_push
                    - lift[:, None] * _turn(g_push)
                )
                g_wind = g_wind - g_rel[:, 0]
                g_v = g_v + g_rel
            return g_v, g_drag, g_lift, g_wind

    def fly(velocity, drag, lift, wind):
        return BallFlight.apply(velocity, drag, lift, wind)

    fly.rule = BallFlight
    return fly


class Benchmark(nn.Module):
    """A trainable table of expected strokes, seeded from tour figures."""

    def __init__(self, knots: Tuple[float, ...] = KNOTS_YD):
        super().__init__()
        self.knots = tuple(knots)
        self.table = nn.Parameter(torch.tensor(BENCHMARK, dtype=torch.float64))

    def forward(self, shots: Dict[str, torch.Tensor]) -> torch.Tensor:
        return StrokesGained.apply(
            self.table,
            shots["start"],
            shots["finish"],
            shots["start_lie"],
            shots["finish_lie"],
            self.knots,
        )


class BuildSheet(nn.Module):
    def __init__(self, clubs: int, pieces: int = 8, pivot: float = 0.0):
        super().__init__()
        self.pivot = pivot
        self.shaft = nn.Parameter(torch.full((clubs, pieces), 0.065 / pieces, dtype=torch.float64))
        self.head = nn.Parameter(torch.full((clubs,), 0.2, dtype=torch.float64))
        self.grip = nn.Parameter(torch.full((clubs,), 0.05, dtype=torch.float64))
        self.length = nn.Parameter(torch.full((clubs,), 1.14, dtype=torch.float64))

    def forward(self):
        return ClubAssembly.apply(self.shaft, self.head, self.grip, self.length, self.pivot)

    def spread(self) -> torch.Tensor:
        """How unevenly the set swings."""
        _, _, swing, inertia = self.forward()
        return swing.var(unbiased=False) * 50.0 + inertia.var(unbiased=False)


class LaunchMonitor(nn.Module):
    def __init__(self, steps: int = 120, dt: float = 0.05):
        super().__init__()
        self.fly = make_ball_flight(steps, dt)
        self.drag = nn.Parameter(torch.tensor(0.24, dtype=torch.float64))
        self.lift = nn.Parameter(torch.tensor(0.17, dtype=torch.float64))

    def forward(self, speed, angle, wind):
        velocity = torch.stack((speed * torch.cos(angle), speed * torch.sin(angle)), -1)
        place, _ = self.fly(velocity, self.drag.expand_as(speed), self.lift.expand_as(speed), wind)
        return place[:, 0] / YARD, place[:, 1]


if __name__ == "__main__":
    monitor = LaunchMonitor()
    carry, height = monitor(
        torch.tensor([70.0, 62.0], dtype=torch.float64),
        torch.tensor([0.21, 0.26], dtype=torch.float64),
        torch.tensor([0.0, -4.0], dtype=torch.float64),
    )
    round_ = {
        "start": torch.tensor([380.0, 140.0, 7.0], dtype=torch.float64),
        "finish": torch.tensor([140.0, 7.0, 0.0], dtype=torch.float64),
        "start_lie": torch.tensor([Lie.TEE, Lie.FAIRWAY, Lie.GREEN]),
        "finish_lie": torch.tensor([int(Lie.FAIRWAY), int(Lie.GREEN), HOLED]),
    }
    gained = Benchmark()(round_)
    (gained.sum() + 1e-3 * carry.sum()).backward()
    print(carry.tolist(), height.tolist(), gained.tolist())
    print(BuildSheet(3).spread())
