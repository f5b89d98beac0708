# Forward models of a TBM drive: cutter loads, cutter wear, surface settlement.
# Used inside the back-analysis of monitoring data (see fit_volume_loss).
import math
from dataclasses import dataclass

import torch
from torch.autograd.function import once_differentiable


@dataclass
class DiscCutter:
    radius: float = 216.0  # mm (17 inch disc)
    tip_width: float = 15.0  # mm
    ring_height: float = 25.0  # mm, penetration past this rides on the hub
    csm_constant: float = 2.12
    psi: float = 0.1  # pressure distribution exponent


class DiscForces(torch.autograd.Function):
    """Normal and rolling force of a disc in kN-like units (CSM model).

    The ring is only `ring_height` tall: deeper penetrations load the hub and the
    cutting forces stay at their value there.
    """

    @staticmethod
    def forward(
        ctx,
        pen,  # (rings, 1) or (rings, cutters) penetration per revolution, mm, > 0
        ucs,  # (rings, 1) uniaxial compressive strength, MPa
        bts,  # (rings, 1) tensile strength, MPa
        spacing,  # (cutters,) mm
        cutter: DiscCutter,
    ):
        R, T = cutter.radius, cutter.tip_width
        depth = pen.clamp(max=cutter.ring_height)
        phi = torch.acos(1.0 - depth / R)
        pressure = cutter.csm_constant * (ucs**2 * bts * spacing / (phi * math.sqrt(R * T))) ** (
            1.0 / 3.0
        )
        total = 1e-3 * pressure * R * T * phi / (1.0 + cutter.psi)
        ctx.save_for_backward(depth, ucs, bts, spacing, phi, total)
        ctx.cutter = cutter
        return total * torch.cos(phi / 2), total * torch.sin(phi / 2)

    @staticmethod
    @once_differentiable
    def backward(ctx, g_normal, g_rolling):
        depth, ucs, bts, spacing, phi, total = ctx.saved_tensors
        R = ctx.cutter.radius
        c, s = torch.cos(phi / 2), torch.sin(phi / 2)
        g_total = g_normal * c + g_rolling * s
        scaled = g_total * total
        # total ~ phi^(2/3), plus the split between the two directions
        g_phi = scaled * (2.0 / 3.0) / phi + 0.5 * total * (g_rolling * c - g_normal * s)
        # d phi / d depth = 1 / sqrt(depth (2R - depth))
        g_pen = g_phi / torch.sqrt(depth * (2.0 * R - depth))
        return (
            g_pen.sum_to_size(depth.shape),
            (scaled * (2.0 / 3.0) / ucs).sum_to_size(ucs.shape),
            (scaled / (3.0 * bts)).sum_to_size(bts.shape),
            (scaled / (3.0 * spacing)).sum_to_size(spacing.shape),
            None,
        )


class CutterWear(torch.autograd.Function):
    """Wear (mm) of every cutter after each ring, with replacements.

    w[0] = w_start, w[t+1] = kept[t] * w[t] + rate * travel[t], kept = 0 where the
    cutter was changed before ring t.  Returns w[1:].
    """

    @staticmethod
    def forward(
        ctx,
        travel,  # (rings, cutters) km rolled in each ring
        rate,  # (rings, 1) mm per km from the Cerchar index
        w_start,  # (cutters,)
        replaced,  # bool (rings, cutters)
    ):
        kept = (~replaced).to(travel.dtype)
        step = rate * travel
        w, out = w_start, []
        for t in range(travel.shape[0]):
            w = kept[t] * w + step[t]
            out.append(w)
        ctx.save_for_backward(travel, rate, kept)
        return torch.stack(out)

    @staticmethod
    def backward(ctx, g):
        travel, rate, kept = ctx.saved_tensors
        carry = torch.zeros_like(g[0])
        adj = torch.empty_like(g)
        for t in range(g.shape[0] - 1, -1, -1):
            adj[t] = g[t] + carry
            carry = kept[t] * adj[t]
        return adj * rate, (adj * travel).sum(1, keepdim=True), carry, None


class SettlementTrough(torch.autograd.Function):
    """Peck/O'Reilly-New surface settlement of several parallel tunnels, superposed.

    Settlement is positive downwards and in the unit of `diameter`.
    """

    @staticmethod
    def forward(
        ctx,
        x,  # (points,) surface offsets of the pins
        axis,  # (tunnels,) offsets of the tunnel axes
        depth,  # (tunnels,) axis depths
        loss,  # (tunnels,) volume loss, fraction of the face
        k,  # trough parameter, 0-d for one soil or (tunnels,)
        diameter,  # float
    ):
        width = k * depth
        u = (x[:, None] - axis) / width
        area = math.pi * diameter**2 / 4
        peak = area * loss / (math.sqrt(2 * math.pi) * width)
        shape = torch.exp(-0.5 * u * u)
        ctx.save_for_backward(axis, depth, loss, k, u, shape)
        ctx.area = area
        return shape @ peak

    @staticmethod
    def backward(ctx, g):
        axis, depth, loss, k, u, shape = ctx.saved_tensors
        width = k * depth
        unit = ctx.area / (math.sqrt(2 * math.pi) * width)
        gs = g[:, None] * shape * unit
        g_loss = gs.sum(0)
        lean = gs * loss * u / width
        g_width = (gs * loss * (u * u - 1) / width).sum(0)
        return -lean.sum(1), lean.sum(0), g_width * k, g_loss, g_width * depth, None


def thrust(pen, ucs, bts, spacing, cutter=DiscCutter()):
    normal, _ = DiscForces.apply(pen, ucs, bts, spacing, cutter)
    return normal.sum(1)


def torque(pen, ucs, bts, spacing, lever, cutter=DiscCutter()):
    _, rolling = DiscForces.apply(pen, ucs, bts, spacing, cutter)
    return rolling @ lever


def fit_volume_loss(x, measured, axis, depth, diameter, iters=200, lr=0.05):
    raw = torch.full_like(axis, -4.6).requires_grad_()
    log_k = torch.tensor(math.log(0.45), dtype=x.dtype, requires_grad=True)
    opt = torch.optim.Adam([raw, log_k], lr=lr)
    for _ in range(iters):
        opt.zero_grad()
        s = SettlementTrough.apply(x, axis, depth, raw.exp(), log_k.exp(), diameter)
        misfit = (1e3 * (s - measured)).square().mean()
        misfit.backward()
        opt.step()
    return raw.detach().exp(), log_k.detach().exp()
