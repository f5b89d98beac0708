import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_SQRT2 = math.sqrt(2.0)
_FAMILIES = ("loglogistic", "weibull")


def _segment_sum(values, ids, n):
    return values.new_zeros((n,) + values.shape[1:]).index_add(0, ids, values)


def _counts(ids, n, like):
    return like.new_zeros(n).index_add(0, ids, torch.ones_like(ids, dtype=like.dtype))


class PromiseHours(Function):
    """Hours within which a consignment arrives with a given service level.

    ``handling``, ``scale`` and ``shape`` hold one positive value per lane, ``(L,)``; ``level`` holds the service levels,
    ``(P,)``, inside (0, 1). ``family`` names the law of the time on the road:

    * ``"loglogistic"``: ``scale * (p / (1 - p)) ** (1 / shape)``
    * ``"weibull"``: ``scale * (-log(1 - p)) ** (1 / shape)``

    The result is ``(L, P)``, handling included.
    """

    @staticmethod
    def forward(ctx, handling, scale, shape, level, family="loglogistic"):
        if family not in _FAMILIES:
            raise ValueError(family)
        base = torch.logit(level) if family == "loglogistic" else torch.log(-torch.log1p(-level))
        road = scale[:, None] * torch.exp(base / shape[:, None])
        ctx.save_for_backward(scale, shape, level, road)
        ctx.family = family
        return handling[:, None] + road

    @staticmethod
    def backward(ctx, g):
        scale, shape, level, road = ctx.saved_tensors
        g_road = g * road
        d_handling = g.sum(1)
        d_scale = g_road.sum(1) / scale
        d_shape = -(g_road * torch.logit(level)).sum(1) / shape.square()
        if ctx.family == "loglogistic":
            slope = 1.0 / (level * (1.0 - level))
        else:
            slope = -1.0 / ((1.0 - level) * torch.log1p(-level))
        d_level = (g_road / shape[:, None]).sum(0) * slope
        return d_handling, d_scale, d_shape, d_level, None


class BackorderLoss(Function):
    """Expected units short per cycle and fill rate of an (r, Q) policy with normal lead-time demand.

    All inputs broadcast against each other (items, sites, scenarios):

        reorder   reorder point r
        demand    mean demand per day
        demand_sd its standard deviation, > 0
        lead      mean lead time in days, > 0
        lead_sd   its standard deviation, >= 0
        lot       order quantity Q, > 0

    Returns ``(short, fill)`` of the broadcast shape, ``fill = 1 - short / lot``.
    """

    @staticmethod
    def forward(reorder, demand, demand_sd, lead, lead_sd, lot):
        sigma = torch.sqrt(lead * demand_sd.square() + (demand * lead_sd).square())
        z = (reorder - demand * lead) / sigma
        density = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        tail = 0.5 * torch.erfc(z / _SQRT2)
        short = sigma * (density - z * tail)
        return short, 1.0 - short / lot

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[0])

    @staticmethod
    def backward(ctx, g_short, g_fill):
        reorder, demand, demand_sd, lead, lead_sd, lot, short = ctx.saved_tensors
        sigma = torch.sqrt(lead * demand_sd.square() + (demand * lead_sd).square())
        z = (reorder - demand * lead) / sigma
        density = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        tail = 0.5 * torch.erfc(z / _SQRT2)
        g = g_short - g_fill / lot
        g_mean = g * tail
        g_var = g * density / (2.0 * sigma)
        grads = (
            -g_mean,
            g_mean * lead + g_var * 2.0 * demand * lead_sd.square(),
            g_var * 2.0 * lead * demand_sd,
            g_mean * demand + g_var * demand_sd.square(),
            g_var * 2.0 * lead_sd * demand.square(),
            g_fill * short / lot.square(),
        )
        return tuple(d.sum_to_size(x.shape) for d, x in zip(grads, ctx.saved_tensors[:6]))


class EmissionShare(Function):
    """Splits the CO2 of each leg by tonnes * km**gamma (both > 0); own-truck loads (billed=False) carry none."""

    @staticmethod
    def forward(ctx, leg_co2, tonnes, km, gamma, leg_id, billed):
        key = tonnes * km ** gamma * billed
        total = _segment_sum(key, leg_id, leg_co2.shape[0])
        total = torch.where(total > 0, total, torch.ones_like(total))
        part = key / total[leg_id]
        ctx.save_for_backward(leg_co2, tonnes, km, gamma, leg_id, total, part, billed)
        return part * leg_co2[leg_id]

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        leg_co2, tonnes, km, gamma, leg_id, total, part, billed = ctx.saved_tensors
        pooled = _segment_sum(g * part, leg_id, leg_co2.shape[0])
        g_key = (g - pooled[leg_id]) * (leg_co2 / total)[leg_id] * billed
        stretch = km ** gamma
        d_tonnes = g_key * stretch
        d_km = g_key * tonnes * gamma * km ** (gamma - 1.0)
        d_gamma = (g_key * tonnes * stretch * km.log()).sum()
        return pooled, d_tonnes, d_km, d_gamma, None, None


class LaneRateBlend(Function):
    @staticmethod
    def forward(ctx, rate, stiffness, lane_id, region_of_lane):
        n_lanes, n_regions = region_of_lane.shape[0], stiffness.shape[0]
        loads = _counts(lane_id, n_lanes, rate)
        lane_mean = _segment_sum(rate, lane_id, n_lanes) / loads.clamp_min(1)
        region_id = region_of_lane[lane_id]
        region_loads = _counts(region_id, n_regions, rate).clamp_min(1)
        region_mean = (_segment_sum(rate, region_id, n_regions) / region_loads)[region_of_lane]
        k = stiffness[region_of_lane]
        z = loads / (loads + k)
        ctx.save_for_backward(loads, lane_mean, region_mean, k, z, lane_id, region_of_lane)
        ctx.n_regions = n_regions
        return z * lane_mean + (1.0 - z) * region_mean

    @staticmethod
    def backward(ctx, g):
        loads, lane_mean, region_mean, k, z, lane_id, region_of_lane = ctx.saved_tensors
        own = g * z / loads.clamp_min(1)
        lanes = _counts(region_of_lane, ctx.n_regions, g).clamp_min(1)
        shared = _segment_sum(g * (1.0 - z), region_of_lane, ctx.n_regions) / lanes
        d_rate = own[lane_id] + shared[region_of_lane[lane_id]]
        d_k = -g * (lane_mean - region_mean) * loads / (loads + k).square()
        return d_rate, _segment_sum(d_k, region_of_lane, ctx.n_regions), None, None


def lane_rates(rate, lane_id, region_of_lane, stiffness=8.0):
    if not torch.is_tensor(stiffness):
        n = int(region_of_lane.max()) + 1
        stiffness = rate.new_full((n,), float(stiffness))
    return LaneRateBlend.apply(rate, stiffness, lane_id, region_of_lane)


def emission_share(leg_co2, tonnes, km, leg_id, gamma=1.0, billed=None):
    gamma = torch.as_tensor(gamma, dtype=tonnes.dtype)
    billed = torch.ones_like(leg_id, dtype=torch.bool) if billed is None else billed
    return EmissionShare.apply(leg_co2, tonnes, km, gamma, leg_id, billed)
