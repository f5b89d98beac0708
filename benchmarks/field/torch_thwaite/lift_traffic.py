"""Up-peak lift traffic: reversal floor, stops and flight times for a bank of cars."""
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import Function


def _sum_to(grad: Tensor, shape) -> Tensor:
    """Fold a gradient back onto the shape its input had before broadcasting."""
    lead = grad.dim() - len(shape)
    if lead:
        grad = grad.sum(dim=tuple(range(lead)))
    dims = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return grad.sum(dim=dims, keepdim=True) if dims else grad


class ReversalFloor(Function):
    """Expected highest reversal floor of a round trip from the lobby.

    With floor shares ``s_i = U_i / sum(U)`` and their running totals ``c_j``,

        H = N - sum_{j<N} c_j ** P

    Args:
        population: ``(..., N)`` people living or working on floors 1..N, not all zero.
            Floors without anybody are allowed, also at the bottom.
        load: ``(...)`` passengers per car, at least 1; leading dims broadcast.

    Returns ``(...)``.
    """

    @staticmethod
    def forward(population, load):
        share = population / population.sum(-1, keepdim=True)
        below = share.cumsum(-1)[..., :-1]
        return population.shape[-1] - below.pow(load.unsqueeze(-1)).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        population, load = inputs
        ctx.save_for_backward(population, load)

    @staticmethod
    def backward(ctx, g):
        population, load = ctx.saved_tensors
        total = population.sum(-1, keepdim=True)
        share = population / total
        below = share.cumsum(-1)[..., :-1]
        p = load.unsqueeze(-1)
        g_pop = g_load = None
        if ctx.needs_input_grad[0]:
            g_below = -g.unsqueeze(-1) * p * below.pow(p - 1)
            g_share = g_below.flip(-1).cumsum(-1).flip(-1)
            g_share = torch.nn.functional.pad(g_share, (0, 1))
            centred = g_share - (share * g_share).sum(-1, keepdim=True)
            g_pop = _sum_to(centred / total, population.shape)
        if ctx.needs_input_grad[1]:
            slope = -torch.xlogy(below.pow(p), below).sum(-1)
            g_load = _sum_to(g * slope, load.shape)
        return g_pop, g_load


class ProbableStops(Function):
    """Expected number of stops above the lobby.

    population (..., N), load (...), served (N,) or (..., N) bool: the floors this bank calls at;
    people of other floors use another bank and count neither as stops nor in the total.
    """

    @staticmethod
    def forward(ctx, population, load, served=None):
        if served is None:
            served = torch.ones_like(population, dtype=torch.bool)
        here = torch.where(served, population, torch.zeros_like(population))
        total = here.sum(-1, keepdim=True)
        share = here / total
        miss = (1.0 - share).pow(load.unsqueeze(-1))
        ctx.save_for_backward(share, total, load, miss)
        ctx.population_shape = population.shape
        return (1.0 - miss).sum(-1)

    @staticmethod
    def backward(ctx, g):
        share, total, load, miss = ctx.saved_tensors
        p = load.unsqueeze(-1)
        g_share = g.unsqueeze(-1) * p * (1.0 - share).pow(p - 1)
        g_pop = (g_share - (share * g_share).sum(-1, keepdim=True)) / total
        g_load = -g * torch.xlogy(miss, 1.0 - share).sum(-1)
        return _sum_to(g_pop, ctx.population_shape), _sum_to(g_load, load.shape), None


class FlightTime(Function):
    # distance, speed, accel, jerk -> seconds; three regimes of an S-curve profile
    @staticmethod
    def forward(ctx, distance, speed, accel, jerk):
        ctx.save_for_backward(distance, speed, accel, jerk)
        d, v, a, j = torch.broadcast_tensors(distance, speed, accel, jerk)
        cruise, ramp = _regimes(d, v, a, j)
        t_cruise = d / v + v / a + a / j
        t_ramp = a / j + (4 * d / a + (a / j) ** 2).sqrt()
        t_hop = (32 * d / j).pow(1 / 3)
        return torch.where(cruise, t_cruise, torch.where(ramp, t_ramp, t_hop))

    @staticmethod
    def backward(ctx, g):
        inputs = ctx.saved_tensors
        d, v, a, j = torch.broadcast_tensors(*inputs)
        cruise, ramp = _regimes(d, v, a, j)
        root = (4 * d / a + (a / j) ** 2).sqrt()
        hop = (32 * d / j).pow(1 / 3) / 3
        zero = torch.zeros_like(d)

        def pick(c, r, h):
            return torch.where(cruise, c, torch.where(ramp, r, h))

        td = pick(1 / v, 2 / (a * root), hop / d)
        tv = pick(1 / a - d / v**2, zero, zero)
        ta = pick(1 / j - v / a**2, 1 / j - 2 * d / (a**2 * root), zero)
        tj = pick(-a / j**2, -a / j**2 - a**2 / (j**3 * root), -hop / j)
        return tuple(_sum_to(g * t, x.shape) for t, x in zip((td, tv, ta, tj), inputs))


def _regimes(d, v, a, j):
    cruise = d >= v * v / a + v * a / j
    ramp = d >= 2 * a**3 / j**2
    return cruise, ramp


@dataclass
class CarBank:
    speed: Tensor
    accel: Tensor
    jerk: Tensor
    floor_height: float = 3.6
    door_time: float = 6.5
    transfer_time: float = 1.1

    def round_trip(self, population, load, served=None):
        """Round trip time after the usual H/S/P formula."""
        high = ReversalFloor.apply(population, load)
        stops = ProbableStops.apply(population, load, served)
        mean_flight = high * self.floor_height / (stops + 1)
        hop = FlightTime.apply(mean_flight, self.speed, self.accel, self.jerk)
        return 2 * high * self.floor_height / self.speed + (stops + 1) * (
            self.door_time + hop - mean_flight / self.speed
        ) + 2 * load * self.transfer_time
