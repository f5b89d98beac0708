"""Windrow composting: recipe, microbial activity and degradation of the pile.

Used to fit kinetic constants to thermocouple and respirometry records of a
yard, and to search recipes that reach hygienisation temperature.

A pile is described by ``L`` layers (core to crust) and ``P`` degradable pools
(sugars and starch, cellulose, lignin).  Microbial groups (mesophiles,
thermophiles) have cardinal temperatures in the sense of Rosso et al. 1993.
"""

import math
from typing import Dict, NamedTuple, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

WATER_DENSITY = 1000.0
PARTICLE_DENSITY = 1600.0
HOURS_PER_DAY = 24.0

#             Tmin  Topt  Tmax
MESOPHILES = (5.0, 35.5, 45.0)
THERMOPHILES = (30.0, 58.0, 71.0)

#                     C      N      water  bulk density
FEEDSTOCKS: Dict[str, Tuple[float, float, float, float]] = {
    "grass": (0.44, 0.030, 0.78, 420.0),
    "leaves": (0.47, 0.009, 0.38, 180.0),
    "wood chips": (0.50, 0.002, 0.30, 260.0),
    "horse manure": (0.42, 0.016, 0.68, 640.0),
    "food scraps": (0.46, 0.027, 0.72, 700.0),
}


class CardinalTemperature(torch.autograd.Function):
    """Relative growth rate of each microbial group.

    Args:
        temp: temperatures, ``(days, layers)``.
        t_min, t_opt, t_max: cardinal temperatures, ``(groups,)``; the optimum
            lies above the middle of the range.

    Returns:
        ``(days, layers, groups)``, 1 at the optimum and 0 outside
        ``(t_min, t_max)``.
    """

    @staticmethod
    def _parts(temp, t_min, t_opt, t_max):
        t = temp[..., None]
        rise = t_opt - t_min
        fall = t_opt - t_max
        inner = rise * (t - t_opt) - fall * (t_opt + t_min - 2.0 * t)
        return t, rise, fall, inner

    @staticmethod
    def forward(ctx, temp, t_min, t_opt, t_max):
        t, rise, _, inner = CardinalTemperature._parts(temp, t_min, t_opt, t_max)
        curve = (t - t_max) * (t - t_min) ** 2 / (rise * inner)
        rate = torch.where((t > t_min) & (t < t_max), curve, torch.zeros_like(curve))
        ctx.save_for_backward(temp, t_min, t_opt, t_max, rate)
        return rate

    @staticmethod
    def backward(ctx, grad):
        temp, t_min, t_opt, t_max, rate = ctx.saved_tensors
        t, rise, fall, inner = CardinalTemperature._parts(temp, t_min, t_opt, t_max)
        over, under = t - t_max, t - t_min
        mirror = t_opt + t_min - 2.0 * t
        scaled = grad / (rise * inner)
        scaled = torch.where(over < 0.0, scaled, torch.zeros_like(scaled))

        g_temp = scaled * (
            under**2 + 2.0 * over * under - rate * rise * (rise + 2.0 * fall)
        )
        g_min = scaled * (
            -2.0 * over * under - rate * (-inner - rise * ((t - t_opt) + fall))
        )
        g_opt = -scaled * rate * (inner + rise * ((t - t_opt) - rise - mirror - fall))
        g_max = -scaled * (under**2 + rate * rise * mirror)
        lead = (0, 1)
        return g_temp.sum(-1), g_min.sum(lead), g_opt.sum(lead), g_max.sum(lead)


class Recipe(NamedTuple):
    cn_ratio: torch.Tensor
    moisture: torch.Tensor
    free_air: torch.Tensor


class FeedstockBlend(torch.autograd.Function):
    """C:N ratio, moisture and free air space of wet-mass recipes.

    ``mass`` is (recipes, feedstocks); the four property vectors are
    (feedstocks,).  C and N are fractions of dry matter.
    """

    @staticmethod
    def forward(ctx, mass, carbon, nitrogen, water, bulk, particle_density):
        dry = mass * (1.0 - water)
        total_c = dry @ carbon
        total_n = dry @ nitrogen
        total = mass.sum(1)
        volume = mass @ (1.0 / bulk)
        moisture = (mass @ water) / total
        density = total / volume
        solid = moisture / WATER_DENSITY + (1.0 - moisture) / particle_density
        ratio = total_c / total_n
        ctx.save_for_backward(
            mass, carbon, nitrogen, water, bulk, total_n, ratio, moisture, density, solid
        )
        ctx.particle_density = particle_density
        return ratio, moisture, 1.0 - density * solid

    @staticmethod
    def backward(ctx, g_ratio, g_moisture, g_air):
        (mass, carbon, nitrogen, water, bulk,
         total_n, ratio, moisture, density, solid) = ctx.saved_tensors
        total = mass.sum(1)
        volume = total / density

        g_c = g_ratio / total_n
        g_n = -g_ratio * ratio / total_n
        g_density = -g_air * solid
        g_wet = g_moisture - g_air * density * (1.0 / WATER_DENSITY - 1.0 / ctx.particle_density)
        g_volume = -g_density * density / volume

        g_dry = g_c[:, None] * carbon + g_n[:, None] * nitrogen
        g_mass = (
            g_dry * (1.0 - water)
            + (g_density / volume)[:, None]
            + g_volume[:, None] / bulk
            + (g_wet / total)[:, None] * (water - moisture[:, None])
        )
        dry = mass * (1.0 - water)
        g_carbon = g_c @ dry
        g_nitrogen = g_n @ dry
        g_water = (g_wet / total) @ mass - (g_dry * mass).sum(0)
        g_bulk = -(g_volume @ mass) / bulk**2
        return g_mass, g_carbon, g_nitrogen, g_water, g_bulk, None


class WindrowDecay(torch.autograd.Function):
    """First-order breakdown of the pools of a layered pile, day by day.

    ``mass`` (L, P), ``rate`` (P,) per hour, ``activity`` (T, L) and ``share``
    (L,), the fraction of the pile that each layer takes up.  Returns what is
    left, (L, P), and the mass respired on each day, (T,).

    With ``turn_every`` > 0 the windrow turner passes at the end of every
    ``turn_every``-th day: all material is mixed and laid down again in
    proportion to ``share``.  0 stands for a static pile.
    """

    @staticmethod
    def forward(ctx, mass, rate, activity, share, turn_every=0):
        history, respired = [], []
        for day in range(activity.shape[0]):
            kept = torch.exp(-HOURS_PER_DAY * activity[day][:, None] * rate)
            history.append(mass)
            respired.append((mass * (1.0 - kept)).sum())
            mass = mass * kept
            if turn_every and (day + 1) % turn_every == 0:
                mass = share[:, None] * mass.sum(0)
        ctx.save_for_backward(torch.stack(history), rate, activity, share)
        ctx.turn_every = turn_every
        return mass, torch.stack(respired)

    @staticmethod
    def backward(ctx, g_left, g_respired):
        history, rate, activity, share = ctx.saved_tensors
        g_mass = g_left
        g_rate = torch.zeros_like(rate)
        g_activity = torch.zeros_like(activity)
        g_share = torch.zeros_like(share)
        for day in reversed(range(activity.shape[0])):
            kept = torch.exp(-HOURS_PER_DAY * activity[day][:, None] * rate)
            if ctx.turn_every and day % ctx.turn_every == 0:
                piled = (history[day] * kept).sum(0)
                g_share += (g_mass * piled).sum(1)
                g_mass = (share[:, None] * g_mass).sum(0).expand_as(g_mass)
            g_kept = history[day] * (g_mass - g_respired[day])
            g_exponent = -HOURS_PER_DAY * g_kept * kept
            g_rate += (g_exponent * activity[day][:, None]).sum(0)
            g_activity[day] = (g_exponent * rate).sum(1)
            g_mass = g_mass * kept + g_respired[day] * (1.0 - kept)
        return g_mass, g_rate, g_activity, g_share, None


class RecipeDesk(nn.Module):
    """Holds feedstock analyses and scores recipes."""

    def __init__(self, names=tuple(FEEDSTOCKS), refine=False):
        super().__init__()
        self.names = list(names)
        columns = torch.tensor([FEEDSTOCKS[n] for n in self.names]).unbind(1)
        for label, column in zip(("carbon", "nitrogen", "water", "bulk"), columns):
            setattr(self, label, nn.Parameter(column.clone(), requires_grad=refine))

    def forward(self, log_mass) -> Recipe:
        return Recipe(*FeedstockBlend.apply(
            log_mass.exp(), self.carbon, self.nitrogen, self.water, self.bulk, PARTICLE_DENSITY
        ))

    def score(self, log_mass, target=(28.0, 0.58, 0.45)):
        got = self(log_mass)
        spread = (6.0, 0.06, 0.08)
        return sum(((g - t) / s) ** 2 for g, t, s in zip(got, target, spread)).mean()


class MicrobialActivity(nn.Module):
    """Mixture of the groups' rates, damped by moisture and oxygen."""

    def __init__(self, groups=(MESOPHILES, THERMOPHILES)):
        super().__init__()
        low, best, high = torch.tensor(groups).unbind(1)
        self.t_min = nn.Parameter(low.clone())
        self.t_opt = nn.Parameter(best.clone())
        self.t_max = nn.Parameter(high.clone())
        self.mix = nn.Parameter(torch.zeros(len(groups)))

    def forward(self, temp, moisture, oxygen):
        moisture = torch.as_tensor(moisture, dtype=temp.dtype)
        rate = CardinalTemperature.apply(temp, self.t_min, self.t_opt, self.t_max)
        blended = rate @ F.softmax(self.mix, 0)
        wet = torch.sigmoid(30.0 * (moisture - 0.35))
        return blended * wet * oxygen / (oxygen + 0.02)


class Windrow(nn.Module):
    def __init__(self, layers=4, pools=3, turn_every=0):
        super().__init__()
        radii = torch.linspace(0, 1, layers + 1)
        self.register_buffer("share", radii[1:] ** 2 - radii[:-1] ** 2)
        self.log_rate = nn.Parameter(torch.log(torch.logspace(-2, -4, pools)))
        self.activity = MicrobialActivity()
        self.turn_every = turn_every

    def forward(self, loaded, temp, moisture, oxygen):
        """loaded: (pools,) kg; temp: (days, layers)."""
        act = self.activity(temp, moisture, oxygen)
        start = self.share[:, None] * loaded
        return WindrowDecay.apply(
            start, self.log_rate.exp(), act, self.share, self.turn_every
        )


def self_heating(respired, mass_left, heat=17.0e3, capacity=3.2):
    """Adiabatic temperature rise (K) of each day from respired matter."""
    return respired * heat / (capacity * mass_left.sum()).clamp(min=1.0) / math.e


if __name__ == "__main__":
    torch.manual_seed(3)
    desk = RecipeDesk(refine=True)
    log_mass = torch.zeros(2, len(desk.names), requires_grad=True)
    desk.score(log_mass).backward()
    pile = Windrow(turn_every=0)
    temp = 20 + 45 * torch.rand(10, 4)
    left, co2 = pile(torch.tensor([200.0, 300.0, 120.0]), temp, 0.55, 0.12)
    (left.sum() + self_heating(co2, left).sum()).backward()
    print(log_mass.grad, pile.log_rate.grad, pile.activity.t_opt.grad)
