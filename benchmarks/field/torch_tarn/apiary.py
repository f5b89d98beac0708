"""Colony models of honeybees: foraging, census of adults, winter cluster."""

import dataclasses

import torch
from torch.autograd import Function


@dataclasses.dataclass(frozen=True)
class ClusterSettings:
    """Settings of the winter cluster.

    :ivar peak_power: greatest heat of one bee, in watts per bee (scaled).
    :ivar stiffness: growth of conductance with the temperature gap, per kelvin.
    :ivar reduction: ``"none"``, ``"sum"`` or ``"mean"``.
    """

    peak_power: float = 0.6
    stiffness: float = 0.02
    reduction: str = "none"


class ForagerShare(Function):
    """Nectar brought home on each trip when trips to one patch deplete it.

    :param effort: (days, trips) effort spent on each trip
    :param quality: (patches,) sugar rate of a patch that nobody visits
    :param capacity: (patches,) effort that halves the rate, positive
    :param patch: (trips,) int64, the patch of each trip; patches may repeat or be left out
    :param depletion: switch the competition off with ``False``
    :return: (days, trips)
    """

    @staticmethod
    def forward(effort, quality, capacity, patch, depletion=True):
        rate = quality.expand(effort.shape[0], -1)
        if depletion:
            crowd = effort.new_zeros(effort.shape[0], quality.shape[0]).index_add(1, patch, effort)
            rate = quality / (1.0 + crowd / capacity)
        return effort * rate[:, patch]

    @staticmethod
    def setup_context(ctx, inputs, output):
        effort, quality, capacity, patch, ctx.depletion = inputs
        ctx.save_for_backward(effort, quality, capacity, patch)

    @staticmethod
    def backward(ctx, grad_trips):
        effort, quality, capacity, patch = ctx.saved_tensors
        days, n_patch = effort.shape[0], quality.shape[0]

        def per_patch(values):
            return values.new_zeros(days, n_patch).index_add(1, patch, values)

        g_rate = per_patch(grad_trips * effort)
        if not ctx.depletion:
            return (
                grad_trips * quality[patch],
                g_rate.sum(0),
                torch.zeros_like(capacity),
                None,
                None,
            )

        crowd = per_patch(effort)
        relief = capacity / (capacity + crowd)
        g_crowd = -g_rate * quality * relief.square() / capacity
        g_effort = grad_trips * (quality * relief)[:, patch] + g_crowd[:, patch]
        g_quality = (g_rate * relief).sum(0)
        g_capacity = -(g_crowd * crowd / capacity).sum(0)
        return g_effort, g_quality, g_capacity, None, None


class ColonyCensus(Function):
    """Adults alive on each day, ``n[t] = survive[t] * n[t - 1] + emerged[t]``.

    :param emerged: (hives, days) young bees that emerge
    :param survive: (hives, days) or (days,), share of yesterday's adults that live to see the day
    :param start: (hives,) adults on the eve of day 0
    :return: (hives, days)
    """

    @staticmethod
    def forward(ctx, emerged, survive, start):
        rate = survive.expand_as(emerged)
        alive, days = start, []
        for t in range(emerged.shape[1]):
            alive = rate[:, t] * alive + emerged[:, t]
            days.append(alive)
        census = torch.stack(days, dim=1)
        ctx.save_for_backward(survive, start, census)
        return census

    @staticmethod
    def backward(ctx, grad_census):
        survive, start, census = ctx.saved_tensors
        rate = survive.expand_as(census)
        before = torch.cat([start[:, None], census[:, :-1]], dim=1)
        value = torch.zeros_like(start)  # worth of one more adult
        g_emerged = torch.empty_like(census)
        for t in reversed(range(census.shape[1])):
            value = grad_census[:, t] + rate[:, t] * value
            g_emerged[:, t] = value
        g_survive = (g_emerged * before).sum_to_size(survive.shape)
        g_start = value * rate[:, 0]
        return g_emerged, g_survive, g_start


class ClusterHeat(Function):
    """Heat that a winter cluster must make, limited by what its bees can give.

    :param bees: number of bees (thousands), positive, e.g. (hives, 1)
    :param air: outside temperature, e.g. (days,)
    :param target: core temperature, broadcastable
    :param exponent: scaling of the surface with the number of bees, broadcastable, near 2/3
    :param settings: :class:`ClusterSettings`

    Warm days (``air >= target``) need none.
    """

    @staticmethod
    def _parts(bees, air, target, exponent, s):
        gap = (target - air).clamp_min(0.0)
        surface = bees.pow(exponent)
        demand = surface * gap * (1.0 + s.stiffness * gap)
        limit = s.peak_power * bees
        return gap, surface, demand, limit

    @staticmethod
    def forward(ctx, bees, air, target, exponent, settings):
        _, _, demand, limit = ClusterHeat._parts(bees, air, target, exponent, settings)
        heat = torch.minimum(demand, limit)
        ctx.settings, ctx.full = settings, heat.shape
        ctx.save_for_backward(bees, air, target, exponent)
        if settings.reduction == "sum":
            return heat.sum()
        if settings.reduction == "mean":
            return heat.mean()
        return heat

    @staticmethod
    def backward(ctx, grad):
        bees, air, target, exponent = ctx.saved_tensors
        s = ctx.settings
        if s.reduction == "mean":
            grad = grad / ctx.full.numel()
        grad = grad.expand(ctx.full)
        gap, surface, demand, limit = ClusterHeat._parts(bees, air, target, exponent, s)
        short = demand > limit
        g_demand = torch.where(short, torch.zeros_like(grad), grad)
        g_limit = grad - g_demand
        # the slope in the gap; no slope on warm days
        g_gap = g_demand * surface * (1.0 + 2.0 * s.stiffness * gap) * (gap > 0)
        g_bees = g_demand * demand * exponent / bees + s.peak_power * g_limit
        g_exponent = g_demand * demand * torch.log(bees)
        return (
            g_bees.sum_to_size(bees.shape),
            (-g_gap).sum_to_size(air.shape),
            g_gap.sum_to_size(target.shape),
            g_exponent.sum_to_size(exponent.shape),
            None,
        )


def season(params, settings=ClusterSettings(reduction="sum")):
    """Stores needed over winter for a dict with ``bees``, ``air``, ``target`` and ``exponent``."""
    return ClusterHeat.apply(
        params["bees"], params["air"], params["target"], params["exponent"], settings
    )


def honey_flow(effort, quality, capacity, patch, depletion=True):
    return ForagerShare.apply(effort, quality, capacity, patch, depletion).sum(-1)
