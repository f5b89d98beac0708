"""Masonry heaters: chimney draught, the warm brick wall, and the wood log book.

SI units; temperatures are absolute (kelvin) throughout, since the wall radiates.
"""
import math
from dataclasses import dataclass

import torch
from torch.autograd.function import once_differentiable

GRAVITY = 9.81
GAS_DENSITY = 353.0          # kg K / m3, density of flue gas times its temperature
BEND_DIAMETERS = 30.0        # a bend resists like so many diameters of straight flue
STEFAN = 5.670374e-8
DRY_WOOD, EVAPORATION = 18.5, 2.44   # MJ / kg


@dataclass
class Flue:
    friction: float = 0.04
    inlet_loss: float = 2.0
    bends: int = 2


class DraughtVelocity(torch.autograd.Function):
    """Gas velocity and mass flow of a chimney in which buoyancy balances friction.

    Flue and outdoor temperature, height and diameter of the flue broadcast.  When the
    flue is no warmer than the outdoor air nothing moves and both outputs are zero.
    """

    @staticmethod
    def _parts(hot, cold, height, diameter, flue):
        resist = flue.inlet_loss + flue.friction * (height / diameter + BEND_DIAMETERS * flue.bends)
        warmth = hot / cold - 1
        drawing = warmth > 0
        safe = torch.where(drawing, warmth, torch.ones_like(warmth))
        v = torch.sqrt(2 * GRAVITY * height * safe / resist)
        return torch.broadcast_to(drawing, v.shape), safe, resist, v

    @staticmethod
    def forward(ctx, hot, cold, height, diameter, flue):
        drawing, _, _, v = DraughtVelocity._parts(hot, cold, height, diameter, flue)
        v = torch.where(drawing, v, torch.zeros_like(v))
        ctx.save_for_backward(hot, cold, height, diameter)
        ctx.flue = flue
        return v, GAS_DENSITY / hot * v * math.pi / 4 * diameter**2

    @staticmethod
    @once_differentiable
    def backward(ctx, gv, gm):
        hot, cold, height, diameter = ctx.saved_tensors
        drawing, warmth, resist, v = DraughtVelocity._parts(hot, cold, height, diameter, ctx.flue)
        m = GAS_DENSITY / hot * v * math.pi / 4 * diameter**2
        moving = drawing.to(v.dtype)
        g_flow = gm * m * moving                 # cotangent of log m
        g_log = gv * v * moving + g_flow         # cotangent of log v
        rub = ctx.flue.friction * height / diameter / resist
        g_hot = g_log / (2 * warmth * cold) - g_flow / hot
        g_cold = -g_log * hot / (2 * warmth * cold**2)
        g_height = g_log * 0.5 * (1 - rub) / height
        g_diam = (g_log * 0.5 * rub + 2 * g_flow) / diameter
        grads = (g_hot, g_cold, g_height, g_diam)
        return tuple(g.sum_to_size(a.shape) for g, a in zip(grads, ctx.saved_tensors)) + (None,)


class BrickCore(torch.autograd.Function):
    """Explicit march of the heat through the bricks of several identical heaters.

    Args:
        start: (heaters, layers) temperatures, firebox side first.
        flux: (heaters, steps) W/m2 into the first layer.
        conductance: (layers - 1,) W/m2/K between neighbours.
        capacity: (layers,) J/m2/K.
        film: scalar tensor, convective coefficient of the room side.
        emissivity: scalar tensor.
        room: float, room temperature.
        dt: float, seconds.

    Returns:
        (heaters, steps) temperature of the room side after each step, and the
        (heaters, layers) temperatures at the end.
    """

    @staticmethod
    def _net(temp, q, conductance, film, emissivity, room):
        through = conductance * (temp[:, :-1] - temp[:, 1:])
        face = temp[:, -1]
        loss = film * (face - room) + emissivity * STEFAN * (face**4 - room**4)
        into = torch.cat([q[:, None], through], 1)
        return into - torch.cat([through, loss[:, None]], 1)

    @staticmethod
    def forward(ctx, start, flux, conductance, capacity, film, emissivity, room=293.0, dt=60.0):
        temp, states = start, []
        for s in range(flux.shape[1]):
            states.append(temp)
            temp = temp + dt / capacity * BrickCore._net(temp, flux[:, s], conductance, film, emissivity, room)
        surface = torch.stack([t[:, -1] for t in states[1:] + [temp]], 1)
        ctx.save_for_backward(flux, conductance, capacity, film, emissivity, torch.stack(states))
        ctx.room, ctx.dt = room, dt
        return surface, temp

    @staticmethod
    @once_differentiable
    def backward(ctx, g_surface, g_end):
        flux, conductance, capacity, film, emissivity, states = ctx.saved_tensors
        lam = g_end.clone()
        g_flux = torch.zeros_like(flux)
        g_con = torch.zeros_like(conductance)
        g_cap = torch.zeros_like(capacity)
        g_film, g_emis = torch.zeros_like(film), torch.zeros_like(emissivity)
        for s in reversed(range(flux.shape[1])):
            lam[:, -1] += g_surface[:, s]
            temp = states[s]
            face = temp[:, -1]
            net = BrickCore._net(temp, flux[:, s], conductance, film, emissivity, ctx.room)
            g_cap -= (lam * net).sum(0) * ctx.dt / capacity**2
            push = lam * ctx.dt / capacity                    # cotangent of the net heat
            g_flux[:, s] = push[:, 0]
            jump = push[:, 1:] - push[:, :-1]
            g_con += (jump * (temp[:, :-1] - temp[:, 1:])).sum(0)
            g_film -= (push[:, -1] * (face - ctx.room)).sum()
            g_emis -= (push[:, -1] * STEFAN * (face**4 - ctx.room**4)).sum()
            lam = lam.clone()
            lam[:, :-1] += jump * conductance
            lam[:, 1:] -= jump * conductance
            lam[:, -1] -= push[:, -1] * (film + 4 * emissivity * STEFAN * face**3)
        return lam, g_flux, g_con, g_cap, g_film, g_emis, None, None


def _wet(moisture, basis):
    """Water per kilogram as weighed."""
    if basis == "wet":
        return moisture
    if basis == "dry":
        return moisture / (1 + moisture)
    raise ValueError(f"basis must be 'wet' or 'dry', not {basis!r}")


class ChargeHeat(torch.autograd.Function):
    """Heat of each day (MJ) and the day's fuel-weighted efficiency, from a log of firings.

    mass, moisture, efficiency: one number a firing; day: int64, a day may have several
    firings or none (both outputs are then 0).  `basis` says what the moisture meter
    shows: water over wood as weighed ("wet") or water over bone-dry wood ("dry").
    """

    @staticmethod
    def forward(ctx, mass, moisture, efficiency, day, days, basis="wet"):
        wet = _wet(moisture, basis)
        value = DRY_WOOD * (1 - wet) - EVAPORATION * wet
        gross = mass * value
        fuel = torch.zeros(days, dtype=mass.dtype).index_add(0, day, gross)
        heat = torch.zeros(days, dtype=mass.dtype).index_add(0, day, gross * efficiency)
        fired = fuel > 0
        fuel = torch.where(fired, fuel, torch.ones_like(fuel))
        eff = torch.where(fired, heat / fuel, torch.zeros_like(heat))
        ctx.save_for_backward(mass, moisture, efficiency, day, value, fuel, eff)
        ctx.basis = basis
        return heat, eff

    @staticmethod
    @once_differentiable
    def backward(ctx, g_heat, g_eff):
        mass, moisture, efficiency, day, value, fuel, eff = ctx.saved_tensors
        share = (g_eff / fuel)[day]
        g_gross = g_heat[day] * efficiency + share * (efficiency - eff[day])
        g_wet = -g_gross * mass * (DRY_WOOD + EVAPORATION)
        g_moist = g_wet if ctx.basis == "wet" else g_wet / (1 + moisture)
        return g_gross * value, g_moist, mass * value * (g_heat[day] + share), None, None, None


def season_heat(log, days, basis="wet"):
    """log: mapping with the columns kg, moisture, efficiency, day."""
    return ChargeHeat.apply(log["kg"], log["moisture"], log["efficiency"], log["day"], days, basis)[0].sum()
