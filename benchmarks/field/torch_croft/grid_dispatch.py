from typing import NamedTuple

import torch
from torch import Tensor

AGEING_B = 15000.0  # K


class Branches(NamedTuple):
    frm: Tensor  # (lines,) long
    to: Tensor  # (lines,) long
    charging: Tensor  # (lines,)
    shift: Tensor  # (lines,) rad


class BranchFlow(torch.autograd.Function):
    """Active and reactive flow into the sending end of each line.

    vm, va: (..., buses) magnitude and angle. g, b: (lines,) series admittance,
    tap: (lines,) off-nominal ratio at the sending end. br: Branches.
    Returns two (..., lines) tensors.
    """

    @staticmethod
    def forward(ctx, vm, va, g, b, tap, br):
        vf, vt = vm[..., br.frm] / tap, vm[..., br.to]
        phi = va[..., br.frm] - va[..., br.to] - br.shift
        cos, sin = phi.cos(), phi.sin()
        p = vf * vf * g - vf * vt * (g * cos + b * sin)
        q = -vf * vf * (b + br.charging / 2) - vf * vt * (g * sin - b * cos)
        ctx.save_for_backward(vm, va, g, b, tap)
        ctx.br = br
        return p, q

    @staticmethod
    def backward(ctx, gp, gq):
        vm, va, g, b, tap = ctx.saved_tensors
        br = ctx.br
        vf, vt = vm[..., br.frm] / tap, vm[..., br.to]
        phi = va[..., br.frm] - va[..., br.to] - br.shift
        cos, sin = phi.cos(), phi.sin()
        along, across = g * cos + b * sin, g * sin - b * cos

        d_vf = gp * (2 * vf * g - vt * along) - gq * (2 * vf * (b + br.charging / 2) + vt * across)
        d_vt = -vf * (gp * along + gq * across)
        d_phi = vf * vt * (gp * across - gq * along)
        d_g = gp * (vf * vf - vf * vt * cos) - gq * vf * vt * sin
        d_b = -gp * vf * vt * sin + gq * (vf * vt * cos - vf * vf)
        d_tap = -d_vf * vf / tap

        grad_vm = torch.zeros_like(vm)
        grad_vm[..., br.frm] += d_vf / tap
        grad_vm[..., br.to] += d_vt
        grad_va = torch.zeros_like(va)
        grad_va[..., br.frm] += d_phi
        grad_va[..., br.to] -= d_phi
        batch = tuple(range(vm.dim() - 1))
        if batch:
            d_g, d_b, d_tap = d_g.sum(batch), d_b.sum(batch), d_tap.sum(batch)
        return grad_vm, grad_va, d_g, d_b, d_tap, None


class HotSpotAgeing(torch.autograd.Function):
    """Winding hot spot of oil-filled transformers and the life they use up.

    load       (units, steps)  per unit of nameplate, >= 0
    ambient    (units, steps)  Celsius
    rise0      (units,)        top-oil rise before the first step, K
    oil_rise   (units,)        rated top-oil rise over ambient, K
    wind_rise  (units,)        rated hot-spot rise over top oil, K
    loss_ratio (units,)        load losses over no-load losses
    tau        (units,)        oil time constant, hours
    hours      float           length of a step
    n, m       floats          oil and winding exponents (0.8 each for ONAN)

    Returns the hot spot (units, steps) in Celsius and the mean ageing factor (units,),
    which is 1 for a constant 110 Celsius. The winding follows the load without lag.
    """

    @staticmethod
    def forward(ctx, load, ambient, rise0, oil_rise, wind_rise, loss_ratio, tau, hours, n=0.8, m=0.8):
        losses = (load.square() * loss_ratio[:, None] + 1) / (loss_ratio[:, None] + 1)
        ultimate = oil_rise[:, None] * losses.pow(n)
        blend = -torch.expm1(-hours / tau)
        rise, rises = rise0, [rise0]
        for target in ultimate.unbind(1):
            rise = rise + blend * (target - rise)
            rises.append(rise)
        rises = torch.stack(rises, 1)
        hot = ambient + rises[:, 1:] + wind_rise[:, None] * load.pow(2 * m)
        ageing = torch.exp(AGEING_B * (1 / 383.0 - 1 / (hot + 273)))
        ctx.save_for_backward(load, oil_rise, wind_rise, loss_ratio, tau, losses, ultimate, blend, rises, hot, ageing)
        ctx.hours, ctx.n, ctx.m = hours, n, m
        return hot, ageing.mean(1)

    @staticmethod
    def backward(ctx, g_hot, g_age):
        load, oil_rise, wind_rise, loss_ratio, tau, losses, ultimate, blend, rises, hot, ageing = ctx.saved_tensors
        n, m = ctx.n, ctx.m
        steps = load.shape[1]
        g_hot = g_hot + (g_age / steps)[:, None] * ageing * AGEING_B / (hot + 273).square()

        carry = torch.zeros_like(tau)
        g_blend = torch.zeros_like(tau)
        g_ultimate = torch.zeros_like(load)
        for t in reversed(range(steps)):
            carry = carry + g_hot[:, t]
            g_blend = g_blend + carry * (ultimate[:, t] - rises[:, t])
            g_ultimate[:, t] = carry * blend
            carry = carry * (1 - blend)
        g_tau = -g_blend * (1 - blend) * ctx.hours / tau.square()

        g_losses = g_ultimate * ultimate * n / losses
        ratio = loss_ratio[:, None]
        g_ratio = (g_losses * (load.square() - losses) / (ratio + 1)).sum(1)
        g_load = g_losses * 2 * load * ratio / (ratio + 1)
        g_load = g_load + g_hot * wind_rise[:, None] * 2 * m * load.pow(2 * m - 1)
        g_oil = (g_ultimate * losses.pow(n)).sum(1)
        g_wind = (g_hot * load.pow(2 * m)).sum(1)
        return g_load, g_hot, carry, g_oil, g_wind, g_ratio, g_tau, None, None, None


class ValvePointCost(torch.autograd.Function):
    @staticmethod
    def forward(ctx, p, coef, ripple, p_min, committed, reduction="mean"):
        a, b, c = coef.unbind(-1)
        e, f = ripple.unbind(-1)
        wave = torch.sin(f * (p_min - p))
        cost = (a + b * p + c * p * p + e * wave.abs()) * committed
        ctx.save_for_backward(p, coef, ripple, p_min, committed)
        ctx.reduction = reduction
        if reduction == "none":
            return cost
        if reduction == "sum":
            return cost.sum()
        return cost.sum() / committed.sum()

    @staticmethod
    def backward(ctx, g):
        p, coef, ripple, p_min, committed = ctx.saved_tensors
        _, b, c = coef.unbind(-1)
        e, f = ripple.unbind(-1)
        if ctx.reduction == "mean":
            g = g / p.numel()
        g = g * committed
        arg = f * (p_min - p)
        wave = torch.sin(arg)
        g_arg = g * e * wave.sign() * torch.cos(arg)
        g_p = g * (b + 2 * c * p) - g_arg * f
        lead = tuple(range(p.dim() - 1))
        g_coef = torch.stack([g, g * p, g * p * p], -1)
        g_ripple = torch.stack([g * wave.abs(), g_arg * (p_min - p)], -1)
        g_pmin = g_arg * f
        if lead:
            g_coef, g_ripple, g_pmin = g_coef.sum(lead), g_ripple.sum(lead), g_pmin.sum(lead)
        return g_p, g_coef, g_ripple, g_pmin, None, None


def dispatch_cost(p, fleet, committed, reduction="mean"):
    """p (hours, units); fleet a dict with coef (units, 3), ripple (units, 2), p_min (units,)."""
    return ValvePointCost.apply(p, fleet["coef"], fleet["ripple"], fleet["p_min"], committed, reduction)
