"""Regularity and delay measures for tram and bus lines, differentiable in the timetable.

Times are minutes.  Everything is batched over simulated days.
"""

from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn

__all__ = ["knock_on_delay", "headway_excess", "door_dwell", "DelayChain", "ExcessWait", "DwellModel"]


def _fold(grad: Tensor, shape) -> Tensor:
    return grad if grad.shape == shape else grad.sum_to_size(shape)


class KnockOnDelay(torch.autograd.Function):
    """Delay at each stop when running-time slack absorbs the delay brought from the stop before."""

    @staticmethod
    def forward(ctx, primary, slack, initial, served, allow_early):
        steps = slack.expand_as(primary)
        late = initial
        active, out = [], []
        for k in range(primary.shape[1]):
            carried = late - steps[:, k]
            if allow_early:
                passes = torch.ones_like(carried, dtype=torch.bool)
            else:
                passes = carried > 0
                carried = carried.clamp(min=0)
            here = carried + primary[:, k]
            if served is not None:
                here = torch.where(served[:, k], here, late)
            late = here
            active.append(passes)
            out.append(late)
        ctx.save_for_backward(torch.stack(active, dim=1))
        ctx.served = served
        ctx.slack_shape = slack.shape
        return torch.stack(out, dim=1)

    @staticmethod
    def backward(ctx, grad):
        (active,) = ctx.saved_tensors
        g_primary = torch.zeros_like(grad)
        g_slack = torch.zeros_like(grad)
        carry = torch.zeros_like(grad[:, 0])
        for k in reversed(range(grad.shape[1])):
            here = grad[:, k] + carry
            through = here * active[:, k]
            if ctx.served is None:
                g_primary[:, k], g_slack[:, k], carry = here, -through, through
            else:
                stop = ctx.served[:, k]
                g_primary[:, k] = here * stop
                g_slack[:, k] = -through * stop
                carry = torch.where(stop, through, here)
        return g_primary, _fold(g_slack, ctx.slack_shape), carry, None, None


def knock_on_delay(primary: Tensor, slack: Tensor, initial: Tensor, served: Optional[Tensor] = None,
                   allow_early: bool = False) -> Tensor:
    """
    :param primary: (days, stops) delay that arises at the stop itself
    :param slack: (stops,) or (days, stops) buffer in the run to the stop
    :param initial: (days,) delay on leaving the depot
    :param served: (days, stops) bool, False where the stop is passed without a timetable point; the delay is
        handed on unchanged there
    :param allow_early: let a run be ahead of its timetable
    """
    return KnockOnDelay.apply(primary, slack, initial, served, allow_early)


class HeadwayExcess(torch.autograd.Function):
    """Excess waiting time per route, weighted with the riders that arrive in each headway."""

    @staticmethod
    def forward(ctx, arrivals, riders, earlier, later, route, scheduled):
        days, routes = arrivals.shape[0], scheduled.shape[0]
        gap = arrivals[:, later] - arrivals[:, earlier]
        zero = arrivals.new_zeros(days, routes)
        area = zero.index_add(1, route, riders * gap * gap)
        span = zero.index_add(1, route, (riders * gap).expand_as(gap))
        seen = span > 0
        safe = torch.where(seen, span, torch.ones_like(span))
        wait = torch.where(seen, 0.5 * area / safe, zero)
        ctx.save_for_backward(gap, riders, wait, safe, seen, earlier, later, route)
        ctx.arrivals_shape = arrivals.shape
        return wait - 0.5 * scheduled * seen

    @staticmethod
    def backward(ctx, grad):
        gap, riders, wait, safe, seen, earlier, later, route = ctx.saved_tensors
        share = (grad * seen / safe)[:, route]
        mean_wait = wait[:, route]
        g_gap = share * riders * (gap - mean_wait)
        g_riders = share * gap * (0.5 * gap - mean_wait)
        g_arrivals = grad.new_zeros(ctx.arrivals_shape)
        g_arrivals[:, later] += g_gap
        g_arrivals[:, earlier] -= g_gap
        g_scheduled = -0.5 * (grad * seen).sum(0)
        return g_arrivals, _fold(g_riders, riders.shape), None, None, None, g_scheduled


def headway_excess(arrivals: Tensor, riders: Tensor, earlier: Tensor, later: Tensor, route: Tensor,
                   scheduled: Tensor) -> Tensor:
    """Excess wait (days, routes).

    ``arrivals`` is (days, trips).  Headway ``j`` runs from trip ``earlier[j]`` to trip ``later[j]`` and counts for
    ``route[j]``.  A trip follows one other trip at most; on a trunk with branches it may be followed by one trip of
    each branch, so that it is named several times in ``earlier``.  ``riders`` is (headways,) or (days, headways).
    Routes without a headway give zero.
    """
    return HeadwayExcess.apply(arrivals, riders, earlier, later, route, scheduled)


class DoorDwell(torch.autograd.Function):
    @staticmethod
    def forward(ctx, boarding, alighting, board_time, alight_time, load, crowding, is_open, mixed, dead_time):
        over = (load - 1.0).clamp(min=0)
        friction = 1.0 + crowding * over * over                      # (days, stops)
        enter = board_time * boarding * friction.unsqueeze(-1)
        leave = alight_time * alighting
        if mixed:
            door = torch.maximum(enter, leave)
        else:
            door = enter + leave
        door = door.masked_fill(~is_open, float("-inf"))
        slowest, which = door.max(dim=-1)
        some = is_open.expand_as(door).any(dim=-1)
        ctx.save_for_backward(boarding, alighting, board_time, alight_time, over, friction, crowding, which, some,
                              enter > leave)
        ctx.mixed = mixed
        return torch.where(some, slowest + dead_time, torch.zeros_like(slowest))

    @staticmethod
    def backward(ctx, grad):
        (boarding, alighting, board_time, alight_time, over, friction, crowding, which, some,
         entering) = ctx.saved_tensors
        g_door = torch.zeros_like(boarding).scatter(-1, which.unsqueeze(-1), (grad * some).unsqueeze(-1))
        g_enter = g_door * entering if ctx.mixed else g_door
        g_leave = g_door * ~entering if ctx.mixed else g_door
        f = friction.unsqueeze(-1)
        g_friction = (g_enter * board_time * boarding).sum(-1)
        g_load = g_friction * 2.0 * crowding * over
        g_crowding = (g_friction * over * over).sum()
        return (g_enter * board_time * f, g_leave * alight_time,
                _fold(g_enter * boarding * f, board_time.shape), _fold(g_leave * alighting, alight_time.shape),
                g_load, g_crowding.reshape(crowding.shape), None, None, None)


def door_dwell(boarding, alighting, board_time, alight_time, load, crowding, is_open=None, mixed=False,
               dead_time=0.1):
    """Dwell (days, stops): time of the slowest open door and a dead time; zero where no door opens.

    boarding, alighting: (days, stops, doors), expected numbers above zero.  board_time, alight_time: () or (doors,).
    load: (days, stops), as a share of the seats.  crowding: ().  is_open: bool, broadcasts to (days, stops, doors).
    mixed: both streams use the door side by side instead of one after the other.
    """
    if is_open is None:
        is_open = torch.ones(boarding.shape[-1], dtype=torch.bool, device=boarding.device)
    return DoorDwell.apply(boarding, alighting, board_time, alight_time, load, crowding, is_open, mixed, dead_time)


@dataclass
class DwellSettings:
    doors: int = 4
    mixed: bool = False
    dead_time: float = 0.1


class DwellModel(nn.Module):
    def __init__(self, settings: DwellSettings = DwellSettings()):
        super().__init__()
        self.settings = settings
        self.board_time = nn.Parameter(torch.full((settings.doors,), 0.03))
        self.alight_time = nn.Parameter(torch.full((settings.doors,), 0.02))
        self.crowding = nn.Parameter(torch.tensor(0.6))

    def forward(self, boarding, alighting, load, is_open=None):
        return door_dwell(boarding, alighting, self.board_time, self.alight_time, load, self.crowding, is_open,
                          self.settings.mixed, self.settings.dead_time)


class DelayChain(nn.Module):
    def __init__(self, stops: int, allow_early: bool = False):
        super().__init__()
        self.slack = nn.Parameter(torch.full((stops,), 0.5))
        self.allow_early = allow_early

    def forward(self, primary, initial, served=None):
        return knock_on_delay(primary, self.slack, initial, served, self.allow_early)


class ExcessWait(nn.Module):
    def __init__(self, earlier, later, route, scheduled):
        super().__init__()
        for name, value in dict(earlier=earlier, later=later, route=route).items():
            self.register_buffer(name, value)
        self.scheduled = nn.Parameter(scheduled)

    def forward(self, arrivals, riders):
        return headway_excess(arrivals, riders, self.earlier, self.later, self.route, self.scheduled)
