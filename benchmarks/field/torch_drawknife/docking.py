"""Docking a ship: the basin is flooded, the ballast is trimmed between tanks, the hull is warped in.

Metres, seconds and newtons.  The ballast tanks stand in a row from bow to stern; cross-valve number j joins tank j
with tank j + 1.
"""
from typing import NamedTuple

import torch

G = 9.81


class Basin(NamedTuple):
    plan_area: float = 3200.0    # m2
    discharge: float = 0.6       # coefficient of the culvert
    calm: float = 0.01           # head (m) under which the flow is taken as laminar, linear in head


def _orifice(head, calm):
    """Velocity through a culvert and its slope; odd in the head, linear within +-calm."""
    size = head.abs().clamp(min=calm)
    root = (2 * G * size).sqrt()
    slow = head.abs() < calm
    speed = torch.where(slow, root * head / calm, root * head.sign())
    slope = torch.where(slow, root / calm, G / root)
    return speed, slope


class BasinFlood(torch.autograd.Function):
    """Explicit steps of the level in a dry dock while the culvert gates are wound.

    opening: (steps, culverts) open gate area in m2 of each culvert
    tide:    (steps,) level outside; below the basin's own level the basin drains
    start:   0-d, level at the beginning
    Gives the level at the end and, per culvert, the sum of flow**2 * dt, which the dock master holds low
    to spare the blocks.
    """

    @staticmethod
    def forward(ctx, opening, tide, start, dt, basin):
        level, surge = start, torch.zeros_like(opening[0])
        speeds, slopes = [], []
        for area, outside in zip(opening, tide):
            speed, slope = _orifice(outside - level, basin.calm)
            flow = basin.discharge * area * speed
            surge = surge + flow.square() * dt
            level = level + dt * flow.sum() / basin.plan_area
            speeds.append(speed)
            slopes.append(slope)
        ctx.save_for_backward(opening, torch.stack(speeds), torch.stack(slopes))
        ctx.dt, ctx.basin = dt, basin
        return level, surge

    @staticmethod
    def backward(ctx, g_level, g_surge):
        opening, speeds, slopes = ctx.saved_tensors
        dt, basin = ctx.dt, ctx.basin
        g_open, g_tide = torch.zeros_like(opening), torch.zeros_like(speeds)
        for t in range(opening.shape[0] - 1, -1, -1):
            flow = basin.discharge * opening[t] * speeds[t]
            g_flow = g_level * dt / basin.plan_area + 2 * g_surge * flow * dt
            g_open[t] = g_flow * basin.discharge * speeds[t]
            g_head = (g_flow * basin.discharge * opening[t]).sum() * slopes[t]
            g_tide[t] = g_head
            g_level = g_level - g_head
        return g_open, g_tide, g_level, None, None


class CrossValveTrim(torch.autograd.Function):
    """Levels of the ballast tanks after a list of valve operations.

    Each entry of `operations` is the number of a cross-valve that is opened once, in the order of the trim plan.
    Opening valve j lets passed[j] * (level[j] - level[j + 1]) of water from tank j to tank j + 1.
    levels (tanks,), surface (tanks,) the free surface of each tank in m2, passed (tanks - 1,) in m3 per metre.
    """

    @staticmethod
    def forward(ctx, levels, surface, passed, operations):
        lev = list(levels.unbind())
        drops = []
        for j in operations:
            drop = lev[j] - lev[j + 1]
            drops.append(drop)
            lev[j] = lev[j] - passed[j] * drop / surface[j]
            lev[j + 1] = lev[j + 1] + passed[j] * drop / surface[j + 1]
        ctx.save_for_backward(surface, passed, torch.stack(drops) if drops else levels[:0])
        ctx.operations = tuple(operations)
        return torch.stack(lev)

    @staticmethod
    def backward(ctx, grad):
        surface, passed, drops = ctx.saved_tensors
        g = grad.clone()
        g_surface, g_passed = torch.zeros_like(surface), torch.zeros_like(passed)
        for drop, j in zip(drops, ctx.operations):
            up, down = g[j].clone(), g[j + 1].clone()
            pull = down / surface[j + 1] - up / surface[j]
            g_passed[j] += drop * pull
            g_surface[j] += up * passed[j] * drop / surface[j] ** 2
            g_surface[j + 1] -= down * passed[j] * drop / surface[j + 1] ** 2
            g[j] += passed[j] * pull
            g[j + 1] -= passed[j] * pull
        return g, g_surface, g_passed, None


class WarpPull(torch.autograd.Function):
    """Pull in the warp by which a winch hauls the hull in, and the part of it that draws the bow sideways.

    speed      through the water, negative when the hull is hauled astern; any shape
    drag       N s2/m2 in open water, broadcast against speed
    blockage   hull section over dock section, 0 <= blockage < 1; resistance grows as (1 - blockage)**-2
    offset     distance of the winch from the hull's line, line the warp's length (offset < line)
    side       "port" or "starboard": where the winch stands; the sideways force is positive to starboard
    """

    @staticmethod
    def forward(ctx, speed, drag, blockage, offset, line, side="starboard"):
        hand = {"starboard": 1.0, "port": -1.0}[side]
        sine = offset / line
        cosine = (1 - sine.square()).sqrt()
        free = 1 / (1 - blockage)
        resistance = drag * speed * speed.abs() * free.square()
        ctx.save_for_backward(speed, drag, free, sine, cosine, line, resistance)
        ctx.hand = hand
        ctx.shapes = [a.shape for a in (speed, drag, blockage, offset, line)]
        return resistance / cosine, hand * resistance * sine / cosine

    @staticmethod
    def backward(ctx, g_pull, g_across):
        speed, drag, free, sine, cosine, line, resistance = ctx.saved_tensors
        g_across = ctx.hand * g_across
        g_res = (g_pull + g_across * sine) / cosine
        # d(1/cos)/ds = s/cos^3, d(tan)/ds = 1/cos^3
        g_sine = resistance * (g_pull * sine + g_across) / cosine ** 3
        grads = (
            g_res * drag * 2 * speed.abs() * free ** 2,
            g_res * speed * speed.abs() * free ** 2,
            g_res * resistance * 2 * free,
            g_sine / line,
            -g_sine * sine / line,
        )
        return tuple(a.sum_to_size(s) for a, s in zip(grads, ctx.shapes)) + (None,)


def sweep_plan(tanks: int, sweeps: int = 2):
    """Bow to stern and again."""
    return [j for _ in range(sweeps) for j in range(tanks - 1)]


def trim_moment(levels, surface, passed, arms, operations=None):
    """Moment of the ballast about midships once the plan has been carried out."""
    if operations is None:
        operations = sweep_plan(levels.shape[0])
    return (CrossValveTrim.apply(levels, surface, passed, operations) * surface * arms).sum()
