"""Differentiable diagnostics for soundings and parametric cyclone vortices.

Used by the ensemble post-processing: each diagnostic has a hand-written adjoint,
because the profiles are long and the graph of the plain version does not fit.
"""
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

GRAVITY = 9.80665
RHO_WATER = 1000.0
RHO_AIR = 1.15
OMEGA = 7.292115e-5


def coriolis(lat_deg):
    """Coriolis parameter (1/s) of one latitude in degrees."""
    from math import radians, sin

    return 2.0 * OMEGA * sin(radians(lat_deg))


def _fit(grad, shape):
    """Sum ``grad`` down to ``shape`` (the reverse of broadcasting)."""
    lead = grad.dim() - len(shape)
    if lead:
        grad = grad.sum(tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return grad.sum(axes, keepdim=True) if axes else grad


class HollandWind(Function):
    """Gradient-level wind of a Holland (1980) vortex.

    ``V = sqrt(B dp / rho * x * exp(-x) + (r f / 2)^2) - r |f| / 2``, ``x = (rmax / r)^B``

    Args:
        radius: distance from the centre in m, ``[..., N]``, > 0.
        rmax, dp, b: radius of maximum wind (m), central pressure drop (Pa) and
            Holland's shape parameter, each > 0, broadcastable to ``radius``
            (``[..., 1]`` for one vortex a row).
        f: Coriolis parameter in 1/s (float). 0 gives the cyclostrophic wind.
        rho: air density in kg/m^3.

    Returns:
        wind speed in m/s, shape of the broadcast arguments.
    """

    @staticmethod
    def forward(ctx, radius, rmax, dp, b, f=0.0, rho=RHO_AIR):
        x = (rmax / radius) ** b
        pressure_term = b * dp / rho * x * torch.exp(-x)
        half = 0.5 * abs(f) * radius
        total = torch.sqrt(pressure_term + half * half)
        ctx.save_for_backward(radius, rmax, dp, b, x, pressure_term, total)
        return total - half

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_wind):
        radius, rmax, dp, b, x, pressure_term, total = ctx.saved_tensors
        g = grad_wind * 0.5 / total
        # d log(pressure_term) / d log(x)
        slope = pressure_term * (1.0 - x)
        g_radius = -g * slope * b / radius
        g_rmax = g * slope * b / rmax
        g_dp = g * pressure_term / dp
        g_b = g * (pressure_term / b + slope * torch.log(rmax / radius))
        return (
            _fit(g_radius, radius.shape),
            _fit(g_rmax, rmax.shape),
            _fit(g_dp, dp.shape),
            _fit(g_b, b.shape),
            None,
            None,
        )


class StormHelicity(Function):
    """Storm-relative helicity of hodographs: u, v [..., L]; storm motion [..., 2]; layers [..., L-1] bool."""

    @staticmethod
    def forward(u, v, motion, layers, positive_only):
        ru = u - motion[..., :1]
        rv = v - motion[..., 1:]
        area = ru[..., 1:] * rv[..., :-1] - ru[..., :-1] * rv[..., 1:]
        keep = layers & (area > 0) if positive_only else layers
        return torch.where(keep, area, torch.zeros_like(area)).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        u, v, motion, layers, positive_only = inputs
        ctx.save_for_backward(u, v, motion, layers)
        ctx.positive_only = positive_only

    @staticmethod
    def backward(ctx, grad):
        u, v, motion, layers = ctx.saved_tensors
        ru = u - motion[..., :1]
        rv = v - motion[..., 1:]
        keep = layers
        if ctx.positive_only:
            area = ru[..., 1:] * rv[..., :-1] - ru[..., :-1] * rv[..., 1:]
            keep = layers & (area > 0)
        g = grad[..., None] * keep.to(u.dtype)
        g_u = g.new_zeros(*g.shape[:-1], u.shape[-1])
        g_v = torch.zeros_like(g_u)
        g_u[..., 1:] += g * rv[..., :-1]
        g_u[..., :-1] -= g * rv[..., 1:]
        g_v[..., :-1] += g * ru[..., 1:]
        g_v[..., 1:] -= g * ru[..., :-1]
        g_motion = torch.stack([-g_u.sum(-1), -g_v.sum(-1)], dim=-1)
        return _fit(g_u, u.shape), _fit(g_v, v.shape), _fit(g_motion, motion.shape), None, None


class ColumnWater(Function):
    """Water column (mm) above the ground.

    Mixing ratios ``q`` [..., L] stand on pressure levels [L] in Pa, from the
    ground upwards (decreasing). Levels that lie under the ground (pressure
    larger than the surface pressure [...]) are pulled up to the surface, so that
    their layers become thin or vanish. No level may lie exactly at the surface.
    """

    @staticmethod
    def forward(ctx, q, levels, surface):
        under = levels > surface[..., None]
        p = torch.where(under, surface[..., None], levels)
        thick = p[..., :-1] - p[..., 1:]
        mid = 0.5 * (q[..., 1:] + q[..., :-1])
        scale = 1000.0 / (GRAVITY * RHO_WATER)
        ctx.save_for_backward(thick, mid, under)
        ctx.scale = scale
        ctx.shapes = q.shape, levels.shape, surface.shape
        return (thick * mid).sum(-1) * scale

    @staticmethod
    def backward(ctx, grad):
        thick, mid, under = ctx.saved_tensors
        g = (grad * ctx.scale)[..., None]
        half = 0.5 * g * thick
        g_q = torch.nn.functional.pad(half, (1, 0)) + torch.nn.functional.pad(half, (0, 1))
        layer = g * mid
        g_p = torch.nn.functional.pad(layer, (0, 1)) - torch.nn.functional.pad(layer, (1, 0))
        g_surface = torch.where(under, g_p, torch.zeros_like(g_p)).sum(-1)
        g_levels = torch.where(under, torch.zeros_like(g_p), g_p)
        return tuple(_fit(x, s) for x, s in zip((g_q, g_levels, g_surface), ctx.shapes))


class VortexField(torch.nn.Module):
    """Symmetric vortex with learned log-parameters, one of each per storm."""

    def __init__(self, storms, lat=0.0):
        super().__init__()
        self.log_rmax = torch.nn.Parameter(torch.full((storms, 1), 10.6))
        self.log_dp = torch.nn.Parameter(torch.full((storms, 1), 8.3))
        self.log_b = torch.nn.Parameter(torch.full((storms, 1), 0.3))
        self.f = coriolis(lat)

    def forward(self, radius):
        return HollandWind.apply(
            radius, self.log_rmax.exp(), self.log_dp.exp(), self.log_b.exp(), self.f
        )


def helicity(u, v, motion, layers=None, positive_only=False):
    if layers is None:
        layers = torch.ones_like(u[..., 1:], dtype=torch.bool)
    return StormHelicity.apply(u, v, motion, layers, positive_only)
