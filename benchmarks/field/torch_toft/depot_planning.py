"""Route split and stock policy for depot planning."""
import math
from collections import namedtuple

import torch
from torch.autograd import Function

Network = namedtuple("Network", "incidence length od")  # (R, L) 0/1, (L,), (R,)


def path_size(net: Network) -> torch.Tensor:
    """Ben-Akiva & Bierlaire path size of each route, with overlaps counted inside its OD pair."""
    same = (net.od[:, None] == net.od[None, :]).to(net.incidence.dtype)
    shared = same @ net.incidence
    route_length = net.incidence @ net.length
    return (net.incidence * net.length / shared.clamp(min=1.0)).sum(1) / route_length


def _per_od(x, od, n):
    return x.new_zeros(x.shape[:-1] + (n,)).index_add_(-1, od, x)


class PathSizeLogit(Function):
    @staticmethod
    def forward(ctx, cost, demand, theta, beta, log_ps, od):
        n = demand.shape[-1]
        v = beta * log_ps - theta * cost
        peak = v.new_full(v.shape[:-1] + (n,), -math.inf)
        peak = peak.scatter_reduce(-1, od.expand_as(v), v, "amax")
        e = torch.exp(v - peak[..., od])
        p = e / _per_od(e, od, n)[..., od]
        ctx.save_for_backward(cost, demand, theta, beta, log_ps, od, p)
        return demand[..., od] * p

    @staticmethod
    def backward(ctx, grad_flow):
        cost, demand, theta, beta, log_ps, od, p = ctx.saved_tensors
        g_demand = _per_od(grad_flow * p, od, demand.shape[-1])
        g_p = grad_flow * demand[..., od]
        g_v = p * (g_p - (g_p * p).sum(-1, keepdim=True))
        g_cost = -theta * g_v
        g_theta = -(g_v * cost).sum()
        g_beta = (g_v * log_ps).sum()
        g_log_ps = (beta * g_v).sum_to_size(log_ps.shape)
        return g_cost, g_demand, g_theta, g_beta, g_log_ps, None


def route_flows(cost, demand, theta, beta, net: Network):
    return PathSizeLogit.apply(cost, demand, theta, beta, path_size(net).log(), net.od)


def make_reorder_cost(holding=1.0, backorder=9.0, lead_std=0.0):
    """Expected holding and backorder cost per period of a reorder point under normal lead-time demand."""

    class ReorderCost(Function):
        """level, demand, demand_std, lead: broadcastable; demand_std > 0, lead > 0."""

        @staticmethod
        def forward(ctx, level, demand, demand_std, lead):
            mean = demand * lead
            sd = (lead * demand_std**2 + (demand * lead_std) ** 2).sqrt()
            z = (level - mean) / sd
            pdf = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
            tail = torch.special.ndtr(-z)
            short = sd * (pdf - z * tail)
            ctx.save_for_backward(level, demand, demand_std, lead, sd, pdf, tail)
            return holding * (level - mean) + (holding + backorder) * short

        @staticmethod
        def backward(ctx, g):
            level, demand, demand_std, lead, sd, pdf, tail = ctx.saved_tensors
            g_gap = g * (holding - (holding + backorder) * tail)
            g_sd = g * (holding + backorder) * pdf
            g_var = g_sd / (2 * sd)
            g_level = g_gap
            g_demand = -g_gap * lead + g_var * 2 * demand * lead_std**2
            g_std = g_var * 2 * lead * demand_std
            g_lead = -g_gap * demand + g_var * demand_std**2
            pairs = ((g_level, level), (g_demand, demand), (g_std, demand_std), (g_lead, lead))
            return tuple(gr.sum_to_size(x.shape) for gr, x in pairs)

    return ReorderCost


ReorderCost = make_reorder_cost(holding=0.6, backorder=7.5, lead_std=0.4)
