"""Junction delays and car following for the calibration of a corridor model."""
from dataclasses import dataclass

import torch
from torch.autograd import Function


@dataclass(frozen=True)
class DriverModel:
    accel: float = 1.7
    brake: float = 3.0
    leader_brake: float = 3.2
    reaction: float = 0.7


class WebsterDelay(Function):
    """Delay and degree of saturation of the movements at a fixed-time signal.

    Webster's two terms, uniform and random; the saturation in them is held at ``cap`` for overloaded movements, the
    returned one is not.

    Args:
        cycle: (J, 1) cycle times, s.
        green: (J, M) green shares, in (0, 1).
        flow: (J, M) arrivals, veh/s, > 0.
        capacity_flow: (J, M) saturation flows, veh/s.
        cap: < 1.

    Returns:
        ``(delay, saturation)``, both (J, M).
    """

    @staticmethod
    def forward(ctx, cycle, green, flow, capacity_flow, cap=0.95):
        saturation = flow / (green * capacity_flow)
        x = saturation.clamp(max=cap)
        uniform = cycle * (1 - green) ** 2 / (2 * (1 - green * x))
        random = x**2 / (2 * flow * (1 - x))
        ctx.cap = cap
        ctx.save_for_backward(cycle, green, flow, capacity_flow)
        return uniform + random, saturation

    @staticmethod
    def backward(ctx, grad_delay, grad_saturation):
        cycle, green, flow, capacity_flow = ctx.saved_tensors
        saturation = flow / (green * capacity_flow)
        x = saturation.clamp(max=ctx.cap)
        slack = 1 - green * x
        red = 1 - green
        d_cycle = grad_delay * red**2 / (2 * slack)
        d_x = grad_delay * (
            cycle * red**2 * green / (2 * slack**2) + x * (2 - x) / (2 * flow * (1 - x) ** 2)
        )
        d_sat = torch.where(saturation < ctx.cap, d_x, torch.zeros_like(d_x))
        d_green = grad_delay * (-cycle * red / slack + cycle * red**2 * x / (2 * slack**2)) - d_sat * saturation / green
        d_flow = -grad_delay * x**2 / (2 * flow**2 * (1 - x)) + d_sat * saturation / flow
        d_capacity = -d_sat * saturation / capacity_flow
        return d_cycle.sum_to_size(cycle.shape), d_green, d_flow, d_capacity, None


class GippsFollow(Function):
    """Next speed of each car: the lesser of the free and the safe one, never below zero.

    speed, leader_speed, gap: (..., N); desired: (K,) speeds by driver class, driver: (..., N) int64 class ids.
    """

    @staticmethod
    def forward(ctx, speed, leader_speed, gap, desired, driver, model):
        wish = desired[driver]
        share = speed / wish
        free = speed + 2.5 * model.accel * model.reaction * (1 - share) * torch.sqrt(0.025 + share)
        bt = model.brake * model.reaction
        radicand = bt**2 + model.brake * (
            2 * gap - speed * model.reaction + leader_speed**2 / model.leader_brake
        )
        safe = torch.sqrt(radicand.clamp(min=0.0)) - bt
        ctx.model = model
        ctx.save_for_backward(speed, leader_speed, desired, driver, free, safe)
        return torch.minimum(free, safe).clamp(min=0.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        speed, leader_speed, desired, driver, free, safe = ctx.saved_tensors
        m = ctx.model
        moving = torch.minimum(free, safe) > 0
        g_free = grad * (moving & (free < safe))
        g_safe = grad * (moving & (safe <= free))
        wish = desired[driver]
        share = speed / wish
        root = torch.sqrt(0.025 + share)
        d_share = g_free * 2.5 * m.accel * m.reaction * ((1 - share) / (2 * root) - root)
        # safe > 0 wherever g_safe is non-zero, hence the root is at least brake * reaction there
        bt = m.brake * m.reaction
        d_rad = g_safe / (2 * (safe + bt).clamp(min=bt))
        d_speed = g_free + d_share / wish - d_rad * m.brake * m.reaction
        d_leader = d_rad * m.brake * 2 * leader_speed / m.leader_brake
        d_gap = d_rad * m.brake * 2
        d_desired = torch.zeros_like(desired).index_add(
            0, driver.reshape(-1), (-d_share * share / wish).reshape(-1)
        )
        return d_speed, d_leader, d_gap, d_desired, None, None


def follow(speed, leader_speed, gap, desired, driver, model=DriverModel()):
    return GippsFollow.apply(speed, leader_speed, gap, desired, driver, model)


def corridor_penalty(cycle, green, flow, capacity_flow, weight=10.0):
    delay, saturation = WebsterDelay.apply(cycle, green, flow, capacity_flow)
    return (flow * delay).sum() + weight * torch.relu(saturation - 0.9).pow(2).sum()
