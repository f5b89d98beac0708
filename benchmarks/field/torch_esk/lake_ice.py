"""Winter-road engineering on lake ice: growth, bearing deflection, conductive flux through a snow cover."""

from dataclasses import dataclass

import torch
from torch.autograd import Function

RHO_ICE = 917.0
LATENT = 334e3
DAY = 86400.0
RHO_WATER_G = 1000.0 * 9.81


@dataclass(frozen=True)
class LakeSite:
    name: str
    freezing_point: float = 0.0
    ice_conductivity: float = 2.2


class StefanFreezeUp(Function):
    """Daily ice thickness by the Stefan law.

    ``h_t**2 = h0**2 + 2 k / (rho L) * DAY * sum_{s<=t} max(T_f - T_s, 0)``

    Args:
        air: (B, T) daily mean air temperature, deg C.
        h0: (B, 1) or (1, 1) thickness at the first day, m; must be positive.
        k: conductivity of the ice, any shape that broadcasts against (B, 1).
        freezing_point: float.

    Returns:
        (B, T) thickness in m.
    """

    @staticmethod
    def forward(ctx, air, h0, k, freezing_point=0.0):
        degree_days = torch.cumsum((freezing_point - air).clamp_min(0.0), dim=1)
        c = 2.0 * DAY / (RHO_ICE * LATENT)
        h = torch.sqrt(h0**2 + c * k * degree_days)
        ctx.save_for_backward(air, h0, k, degree_days, h)
        ctx.c, ctx.freezing_point = c, freezing_point
        return h

    @staticmethod
    def backward(ctx, grad_h):
        air, h0, k, degree_days, h = ctx.saved_tensors
        g_sq = grad_h / (2.0 * h)
        g_h0 = (2.0 * h0 * g_sq).sum_to_size(h0.shape)
        g_k = (ctx.c * degree_days * g_sq).sum_to_size(k.shape)
        g_dd = ctx.c * k * g_sq
        # each day counts for itself and for all the days after it
        g_freeze = torch.flip(torch.cumsum(torch.flip(g_dd, [1]), 1), [1])
        g_air = torch.where(air < ctx.freezing_point, -g_freeze, torch.zeros_like(air))
        return g_air, g_h0, g_k, None


class AxleLoadDeflection(Function):
    """Deflection of a floating sheet at gauges (G,) under axles at (B, N) with loads (B, N); ell is (B,)."""

    @staticmethod
    def forward(ctx, load, position, ell, gauges, physical=False):
        length = ell[:, None, None]
        offset = position[:, None, :] - gauges[None, :, None]
        u = offset.abs() / length
        shape = torch.exp(-u) * (torch.cos(u) + torch.sin(u))
        scale = 1.0 / (8.0 * RHO_WATER_G * ell**2) if physical else torch.ones_like(ell)
        ctx.save_for_backward(load, ell, offset, u, shape, scale)
        return scale[:, None] * torch.einsum("bgn,bn->bg", shape, load)

    @staticmethod
    def backward(ctx, grad):
        load, ell, offset, u, shape, scale = ctx.saved_tensors
        g = grad * scale[:, None]
        g_load = torch.einsum("bg,bgn->bn", g, shape)
        d_shape = -2.0 * torch.exp(-u) * torch.sin(u)
        g_u = g[:, :, None] * load[:, None, :] * d_shape
        length = ell[:, None, None]
        g_offset = g_u * torch.sign(offset) / length
        g_ell = -(g_u * u / length).sum(dim=(1, 2))
        return g_load, g_offset.sum(1), g_ell, -g_offset.sum(dim=(0, 2)), None


class SnowCoverFlux(Function):
    @staticmethod
    def forward(ctx, depth, lam, ice, t_bottom, t_top, layer_mask, k_ice):
        resist = torch.where(layer_mask, depth / lam, torch.zeros_like(depth)).sum(-1) + ice / k_ice
        flux = (t_bottom - t_top) / resist
        ctx.save_for_backward(depth, lam, resist, flux, layer_mask)
        ctx.k_ice = k_ice
        return flux

    @staticmethod
    def backward(ctx, g):
        depth, lam, resist, flux, layer_mask = ctx.saved_tensors
        g_delta = g / resist
        g_resist = -g * flux / resist
        g_layers = g_resist[..., None].expand_as(depth)
        g_depth = torch.where(layer_mask, g_layers / lam, torch.zeros_like(lam))
        g_lam = -g_layers * depth / lam**2
        return g_depth, g_lam, g_resist / ctx.k_ice, g_delta, -g_delta, None, None


def flux_at(site: LakeSite, depth, lam, ice, t_top, layer_mask=None):
    if layer_mask is None:
        layer_mask = torch.ones_like(depth, dtype=torch.bool)
    bottom = torch.full_like(t_top, site.freezing_point)
    return SnowCoverFlux.apply(depth, lam, ice, bottom, t_top, layer_mask, site.ice_conductivity)
