"""Pieces of a differentiable velocity prediction program (VPP) for sailing yachts."""
from dataclasses import dataclass
import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

KNOT = 0.514444
DEG = math.pi / 180.0


class ApparentWind(Function):
    """Apparent wind speed and angle seen on deck.

    Args (all broadcast against each other):
        tws: true wind speed, any unit.
        twa: true wind angle off the bow, radians, or degrees if ``degrees``.
        bs:  boat speed, same unit as ``tws``.
    Returns ``(aws, awa)`` with ``awa`` in the unit of ``twa``. The apparent wind must not vanish.
    """

    @staticmethod
    def forward(ctx, tws, twa, bs, degrees=False):
        ang = twa * DEG if degrees else twa
        c, s = torch.cos(ang), torch.sin(ang)
        u = tws * c + bs
        v = tws * s
        v = v.expand_as(u) if v.shape != u.shape else v
        aws = torch.hypot(u, v)
        awa = torch.atan2(v, u)
        ctx.save_for_backward(tws, c, s, u, v, aws)
        ctx.degrees = degrees
        ctx.shapes = tws.shape, twa.shape, bs.shape
        return aws, (awa / DEG if degrees else awa)

    @staticmethod
    @once_differentiable
    def backward(ctx, g_aws, g_awa):
        tws, c, s, u, v, aws = ctx.saved_tensors
        if ctx.degrees:
            g_awa = g_awa / DEG
        inv = 1.0 / aws
        du = (g_aws * u - g_awa * v * inv) * inv
        dv = (g_aws * v + g_awa * u * inv) * inv
        g_tws = du * c + dv * s
        g_twa = tws * (dv * c - du * s)
        if ctx.degrees:
            g_twa = g_twa * DEG
        a, b, d = ctx.shapes
        return g_tws.sum_to_size(a), g_twa.sum_to_size(b), du.sum_to_size(d), None


def _bracket(knots, x):
    hi = torch.searchsorted(knots, x.contiguous(), right=True).clamp(1, knots.numel() - 1)
    return hi - 1, hi


class PolarSpeed(Function):
    """Bilinear read of a boat-speed polar.

    ``table`` (S, A) holds target speeds at ``tws_knots`` (S,) and ``twa_knots`` (A,), both strictly increasing;
    ``tws`` and ``twa`` have one shape, and are held at the edges of the polar. The knots are constants.
    """

    @staticmethod
    def forward(table, tws, twa, tws_knots, twa_knots):
        x = tws.clamp(tws_knots[0], tws_knots[-1])
        y = twa.clamp(twa_knots[0], twa_knots[-1])
        i0, i1 = _bracket(tws_knots, x)
        j0, j1 = _bracket(twa_knots, y)
        p = (x - tws_knots[i0]) / (tws_knots[i1] - tws_knots[i0])
        q = (y - twa_knots[j0]) / (twa_knots[j1] - twa_knots[j0])
        lo = table[i0, j0] * (1 - q) + table[i0, j1] * q
        hi = table[i1, j0] * (1 - q) + table[i1, j1] * q
        return lo * (1 - p) + hi * p

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        table, tws, twa, tws_knots, twa_knots = ctx.saved_tensors
        x = tws.clamp(tws_knots[0], tws_knots[-1])
        y = twa.clamp(twa_knots[0], twa_knots[-1])
        i0, i1 = _bracket(tws_knots, x)
        j0, j1 = _bracket(twa_knots, y)
        dx = tws_knots[i1] - tws_knots[i0]
        dy = twa_knots[1] - twa_knots[0]
        p = (x - tws_knots[i0]) / dx
        q = (y - twa_knots[j0]) / (twa_knots[j1] - twa_knots[j0])

        g_table = torch.zeros_like(table)
        for i, wi in ((i0, 1 - p), (i1, p)):
            for j, wj in ((j0, 1 - q), (j1, q)):
                g_table.index_put_((i, j), g * wi * wj, accumulate=True)

        t00, t01, t10, t11 = table[i0, j0], table[i0, j1], table[i1, j0], table[i1, j1]
        slope_x = ((t10 - t00) * (1 - q) + (t11 - t01) * q) / dx
        slope_y = ((t01 - t00) * (1 - p) + (t11 - t10) * p) / dy
        inside_x = (tws >= tws_knots[0]) & (tws <= tws_knots[-1])
        inside_y = (twa >= twa_knots[0]) & (twa <= twa_knots[-1])
        return g_table, g * slope_x * inside_x, g * slope_y * inside_y, None, None


@dataclass(frozen=True)
class Righting:
    form: torch.Tensor      # > 0
    ballast: torch.Tensor   # >= 0


class HeelEquilibrium(Function):
    # form * tan(phi) + ballast * sin(phi) = heeling * cos(phi)
    @staticmethod
    def forward(ctx, form, ballast, heeling, iters=64):
        shape = torch.broadcast_shapes(form.shape, ballast.shape, heeling.shape)
        lo = heeling.new_full(shape, -math.pi / 2)
        hi = -lo
        for _ in range(iters):
            mid = 0.5 * (lo + hi)
            up = form * torch.tan(mid) + ballast * torch.sin(mid) > heeling * torch.cos(mid)
            hi = torch.where(up, mid, hi)
            lo = torch.where(up, lo, mid)
        phi = 0.5 * (lo + hi)
        ctx.save_for_backward(form, ballast, heeling, phi)
        return phi

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        form, ballast, heeling, phi = ctx.saved_tensors
        c, s = torch.cos(phi), torch.sin(phi)
        lam = g / (form / c.square() + ballast * c + heeling * s)
        return (
            (-lam * s / c).sum_to_size(form.shape),
            (-lam * s).sum_to_size(ballast.shape),
            (lam * c).sum_to_size(heeling.shape),
            None,
        )


def heel_angle(righting: Righting, heeling):
    return HeelEquilibrium.apply(righting.form, righting.ballast, heeling)


class PolarModel(nn.Module):
    def __init__(self, tws_knots, twa_knots):
        super().__init__()
        self.register_buffer("tws_knots", torch.as_tensor(tws_knots))
        self.register_buffer("twa_knots", torch.as_tensor(twa_knots))
        self.speeds = nn.Parameter(torch.full((len(tws_knots), len(twa_knots)), 6.0))

    def forward(self, tws, twa):
        bs = PolarSpeed.apply(self.speeds, tws, twa, self.tws_knots, self.twa_knots)
        aws, awa = ApparentWind.apply(tws, twa, bs, True)
        return {"bs": bs, "aws": aws, "awa": awa}
