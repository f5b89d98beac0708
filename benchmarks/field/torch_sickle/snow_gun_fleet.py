"""Planning model of a ski area's snowmaking night.

Weather stations along the pistes give air temperature and humidity; from them
we take the wet-bulb temperature, the water throughput of each gun from its
maker's table, and the depth of the stockpiles under the guns through the
following hours.  The whole chain is differentiable so that gun settings and
maker's tables can be fitted to metered water, and start times can be tuned
with gradient steps.

Units: deg C, per cent relative humidity, m^3/h of water, metres of snow,
hours.
"""

import math
from collections import namedtuple

import torch
from torch import nn

STULL = (0.151977, 8.313659, 1.676331, 0.00391838, 0.023101, 4.686035)
DEFAULT_KNOTS = (-14.0, -11.0, -9.0, -7.0, -5.0, -3.5, -2.0)
WATER_DENSITY = 1000.0
MACHINE_SNOW_DENSITY = 430.0
START_LIMIT = -2.0

NightForecast = namedtuple("NightForecast", ["air", "humidity"])
PileState = namedtuple("PileState", ["depth", "melt"])


def lapse_to(air, station_height, gun_height, lapse=6.5e-3):
    """Air temperature moved from a station to a gun by the lapse rate."""
    return air - lapse * (gun_height - station_height)


class WetBulbStull(torch.autograd.Function):
    """Wet-bulb temperature by Stull's (2011) one-line fit at sea-level pressure.

    Parameters
    ----------
    air : Tensor
        Air temperature in deg C, any shape.
    humidity : Tensor
        Relative humidity in per cent (5 to 99), broadcastable to ``air``.
    """

    @staticmethod
    def forward(ctx, air, humidity):
        a, b, c, d, e, f = STULL
        ctx.save_for_backward(air, humidity)
        return (
            air * torch.atan(a * torch.sqrt(humidity + b))
            + torch.atan(air + humidity)
            - torch.atan(humidity - c)
            + d * humidity.pow(1.5) * torch.atan(e * humidity)
            - f
        )

    @staticmethod
    def backward(ctx, grad):
        air, humidity = ctx.saved_tensors
        a, b, c, d, e, _ = STULL
        root = torch.sqrt(humidity + b)
        joint = 1.0 / (1.0 + (air + humidity).square())
        d_air = torch.atan(a * root) + joint
        d_hum = (
            air * (0.5 * a / root) / (1.0 + (a * root).square())
            + joint
            - 1.0 / (1.0 + (humidity - c).square())
            + 1.5 * d * humidity.sqrt() * torch.atan(e * humidity)
            + d * humidity.pow(1.5) * e / (1.0 + (e * humidity).square())
        )
        grad_air = (grad * d_air).sum_to_size(air.shape)
        grad_hum = (grad * d_hum).sum_to_size(humidity.shape)
        return grad_air, grad_hum


def bracket(x, knots):
    """Segment number and position within it for values inside the table."""
    seg = torch.bucketize(x, knots, right=True).sub(1).clamp(0, knots.numel() - 2)
    left = knots[seg]
    span = knots[seg + 1] - left
    return seg, (x - left) / span, span


class GunThroughput(torch.autograd.Function):
    """Water throughput of guns at given wet-bulb temperatures.

    The maker's table of gun ``g`` gives ``rates[g, k]`` at ``knots[k]``
    (ascending). Between knots the rate is linear. Below the coldest knot the
    pump limit holds it at the first entry; above the warmest knot the valve
    is shut and the rate is zero.

    Args:
        wet_bulb: (hours, guns).
        rates: (guns, knots).
        knots: (knots,), a fixed table.

    Returns:
        (hours, guns) throughput in m^3/h.
    """

    @staticmethod
    def forward(ctx, wet_bulb, rates, knots):
        seg, pos, span = bracket(wet_bulb, knots)
        pos = pos.clamp(min=0.0)
        gun = torch.arange(rates.shape[0], device=rates.device).expand_as(seg)
        lo, hi = rates[gun, seg], rates[gun, seg + 1]
        running = (wet_bulb <= knots[-1]).to(rates.dtype)
        ctx.save_for_backward(seg, pos, span, gun, lo, hi, running)
        ctx.table_shape = rates.shape
        return running * (lo + pos * (hi - lo))

    @staticmethod
    def backward(ctx, grad):
        seg, pos, span, gun, lo, hi, running = ctx.saved_tensors
        live = grad * running
        grad_wet = live * (hi - lo) / span
        grad_rates = torch.zeros(ctx.table_shape, dtype=grad.dtype, device=grad.device)
        grad_rates.index_put_((gun, seg), live * (1.0 - pos), accumulate=True)
        grad_rates.index_put_((gun, seg + 1), live * pos, accumulate=True)
        return grad_wet, grad_rates, None


class PileNight(torch.autograd.Function):
    """Depth of the piles hour by hour, and what melted in all.

    depth[h] = exp(-rate * max(air[h], 0)) * depth[h - 1] + fresh[h]

    fresh and air are (hours, piles), rate and start (piles,). Gives depth
    (hours, piles) and melt (piles,), the sum of hourly losses.
    """

    @staticmethod
    def forward(ctx, fresh, air, rate, start):
        warm = air.clamp_min(0.0)
        keep = torch.exp(-rate * warm)
        depth = torch.empty_like(fresh)
        level = start
        melt = torch.zeros_like(start)
        for h in range(fresh.shape[0]):
            melt = melt + (1.0 - keep[h]) * level
            level = keep[h] * level + fresh[h]
            depth[h] = level
        ctx.save_for_backward(air, warm, keep, rate, depth, start)
        return depth, melt

    @staticmethod
    def backward(ctx, grad_depth, grad_melt):
        air, warm, keep, rate, depth, start = ctx.saved_tensors
        hours = keep.shape[0]
        grad_fresh = torch.empty_like(keep)
        grad_keep = torch.empty_like(keep)
        carry = torch.zeros_like(start)
        for h in range(hours - 1, -1, -1):
            adj = carry + grad_depth[h]
            before = depth[h - 1] if h > 0 else start
            grad_fresh[h] = adj
            grad_keep[h] = (adj - grad_melt) * before
            carry = adj * keep[h] + grad_melt * (1.0 - keep[h])
        grad_exponent = -grad_keep * keep
        grad_air = grad_exponent * rate * (air > 0.0)
        grad_rate = (grad_exponent * warm).sum(0)
        return grad_fresh, grad_air, grad_rate, carry


def snow_depth_from_water(water, footprint, density=MACHINE_SNOW_DENSITY):
    """Metres of machine snow from hourly water over a pile's footprint (m^2)."""
    return water * (WATER_DENSITY / density) / footprint


def compressor_power(throughput, air, specific=4.2):
    """kW of compressed air; marginal temperatures need more air per litre."""
    marginal = torch.exp(0.12 * (air + 8.0)).clamp(0.5, 3.0)
    return specific * throughput * marginal


class GunFleet(nn.Module):
    """Guns of several makes standing along the pistes.

    Attributes
    ----------
    rates : (guns, knots) throughput table, fitted
    site_shift : (guns,) wet-bulb correction of each site, fitted
    """

    def __init__(self, guns, knots=DEFAULT_KNOTS, peak=24.0):
        super().__init__()
        self.register_buffer("knots", torch.tensor(knots))
        ramp = torch.linspace(1.0, 0.15, len(knots))
        self.rates = nn.Parameter(peak * ramp.repeat(guns, 1))
        self.site_shift = nn.Parameter(torch.zeros(guns))

    def forward(self, forecast: NightForecast):
        wet = WetBulbStull.apply(forecast.air, forecast.humidity)
        wet = wet.unsqueeze(-1) + self.site_shift if wet.dim() == 1 else wet + self.site_shift
        return GunThroughput.apply(wet, self.rates, self.knots)


class Stockpiles(nn.Module):
    def __init__(self, piles, footprint=180.0, rate=0.006):
        super().__init__()
        self.log_rate = nn.Parameter(torch.full((piles,), math.log(rate)))
        self.footprint = footprint

    def forward(self, water, air, start):
        fresh = snow_depth_from_water(water, self.footprint)
        depth, melt = PileNight.apply(fresh, air, self.log_rate.exp(), start)
        return PileState(depth, melt)


class NightPlan:
    """Objective of one night: reach the target depths with little power."""

    def __init__(self, fleet, piles, target, price=0.14):
        self.fleet, self.piles = fleet, piles
        self.target, self.price = target, price

    def objective(self, forecast, start):
        water = self.fleet(forecast)
        state = self.piles(water, forecast.air, start)
        shortfall = (self.target - state.depth[-1]).clamp_min(0.0)
        cost = self.price * compressor_power(water, forecast.air).sum()
        return shortfall.square().sum() + 1e-3 * cost + 0.05 * state.melt.sum()


def usable_hours(wet_bulb, limit=START_LIMIT):
    return (wet_bulb <= limit).sum(0)


def example_night(hours=14, guns=5, seed=0):
    gen = torch.Generator().manual_seed(seed)
    clock = torch.linspace(0.0, math.pi, hours).unsqueeze(-1)
    air = 1.5 - 11.0 * torch.sin(clock) + torch.randn(hours, guns, generator=gen)
    humidity = 62.0 + 14.0 * torch.rand(hours, guns, generator=gen)
    return NightForecast(air, humidity)


if __name__ == "__main__":
    night = example_night()
    plan = NightPlan(GunFleet(5), Stockpiles(5), target=torch.full((5,), 2.5))
    optimiser = torch.optim.Adam(plan.fleet.parameters(), lr=1e-2)
    for step in range(5):
        optimiser.zero_grad()
        value = plan.objective(night, torch.full((5,), 0.4))
        value.backward()
        optimiser.step()
        print(step, round(value.item(), 4))
