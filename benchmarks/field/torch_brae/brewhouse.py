"""Differentiable brewhouse formulas for the recipe fitter (bitterness, colour, heat treatment)."""
import math
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TINSETH_RATE = 0.04
TINSETH_MAX = 4.15
MOREY_SCALE = 1.4922
MOREY_POWER = 0.6859
MCU_PER_KG_LITRE = 8.3454


class TinsethBitterness(Function):
    """International bitterness units of a set of brews after Tinseth.

    Args:
        alpha:   alpha-acid fraction of each hop, ``(H,)`` (one hop list for all brews) or ``(B, H)``.
        grams:   hop mass per brew and addition, ``(B, H)``.
        minutes: boil time, ``(H,)`` or ``(B, H)``, >= 0.
        gravity: wort gravity at the boil (1.040 ...), ``(B,)``.
        litres:  batch volume, ``(B,)`` or a 0-d tensor, > 0.
        boiled:  optional bool ``(B, H)`` or ``(H,)``; additions that are False (dry hops) add nothing.
        bonus:   factor on the utilisation, 1.1 for pellets.

    Returns:
        IBU, ``(B,)``.
    """

    @staticmethod
    def forward(alpha, grams, minutes, gravity, litres, boiled=None, bonus=1.0):
        big = 1.65 * torch.exp(math.log(0.000125) * (gravity - 1.0))
        rise = -torch.expm1(-TINSETH_RATE * minutes) / TINSETH_MAX
        milligrams = 1000.0 * bonus * alpha * grams * rise
        if boiled is not None:
            milligrams = milligrams * boiled
        return big * milligrams.sum(-1) / litres

    @staticmethod
    def setup_context(ctx, inputs, output):
        alpha, grams, minutes, gravity, litres, boiled, bonus = inputs
        ctx.save_for_backward(alpha, grams, minutes, gravity, litres, boiled, output)
        ctx.bonus = bonus

    @staticmethod
    def backward(ctx, g):
        alpha, grams, minutes, gravity, litres, boiled, ibu = ctx.saved_tensors
        big = 1.65 * torch.exp(math.log(0.000125) * (gravity - 1.0))
        decay = torch.exp(-TINSETH_RATE * minutes)
        rise = -torch.expm1(-TINSETH_RATE * minutes) / TINSETH_MAX
        lead = (g * big / litres).unsqueeze(-1) * (1000.0 * ctx.bonus)
        if boiled is not None:
            lead = lead * boiled
        d_alpha = (lead * grams * rise).sum_to_size(alpha.shape)
        d_grams = (lead * alpha * rise).sum_to_size(grams.shape)
        d_minutes = (lead * alpha * grams * decay * (TINSETH_RATE / TINSETH_MAX)).sum_to_size(minutes.shape)
        d_gravity = (g * ibu * math.log(0.000125)).sum_to_size(gravity.shape)
        d_litres = (-g * ibu / litres).sum_to_size(litres.shape)
        return d_alpha, d_grams, d_minutes, d_gravity, d_litres, None, None


class BatchColor(Function):
    """SRM of each batch (Morey) from a flat grain bill: one row per (batch, malt) charge."""

    @staticmethod
    def forward(ctx, kilos, lovibond, litres, malt_id, batch_id):
        degrees = lovibond[malt_id]
        charge = torch.zeros_like(litres).index_add(0, batch_id, kilos * degrees)
        mcu = MCU_PER_KG_LITRE * charge / litres
        ctx.save_for_backward(kilos, degrees, litres, mcu, malt_id, batch_id)
        ctx.n_malts = lovibond.shape[0]
        return MOREY_SCALE * mcu.clamp_min(0.0) ** MOREY_POWER

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        kilos, degrees, litres, mcu, malt_id, batch_id = ctx.saved_tensors
        positive = mcu > 0
        safe = torch.where(positive, mcu, torch.ones_like(mcu))
        slope = torch.where(positive, MOREY_SCALE * MOREY_POWER * safe ** (MOREY_POWER - 1.0), torch.zeros_like(mcu))
        g_mcu = g * slope
        per_row = (g_mcu * MCU_PER_KG_LITRE / litres)[batch_id]
        d_kilos = per_row * degrees
        d_lovibond = kilos.new_zeros(ctx.n_malts)
        d_lovibond[malt_id] = per_row * kilos
        d_litres = -g_mcu * mcu / litres
        return d_kilos, d_lovibond, d_litres, None, None


class PasteurUnits(Function):
    @staticmethod
    def forward(ctx, celsius, clock, z_value, reference=60.0, cutoff=None):
        step = clock[..., 1:] - clock[..., :-1]
        z = z_value.unsqueeze(-1)
        rate = torch.exp(math.log(10.0) * (celsius - reference) / z)
        if cutoff is not None:
            rate = rate * (celsius >= cutoff)
        ctx.save_for_backward(celsius, clock, z_value, rate)
        ctx.reference = reference
        return (0.5 * step * (rate[..., 1:] + rate[..., :-1])).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        celsius, clock, z_value, rate = ctx.saved_tensors
        g = g.unsqueeze(-1)
        step = clock[..., 1:] - clock[..., :-1]
        width = torch.zeros_like(clock)
        width[..., 1:] += 0.5 * step
        width[..., :-1] += 0.5 * step
        z = z_value.unsqueeze(-1)
        g_rate = g * width * rate * (math.log(10.0) / z)
        d_celsius = g_rate.sum_to_size(celsius.shape)
        d_z = (-g_rate * (celsius - ctx.reference) / z).sum(-1).sum_to_size(z_value.shape)

        g_step = g * 0.5 * (rate[..., 1:] + rate[..., :-1])
        edge = torch.zeros_like(g_step[..., :1])
        d_clock = torch.cat([edge, g_step], -1) - torch.cat([g_step, edge], -1)
        return d_celsius, d_clock.sum_to_size(clock.shape), d_z, None, None


@dataclass
class Recipe:
    alpha: Tensor
    grams: Tensor
    minutes: Tensor
    gravity: Tensor
    litres: Tensor
    boiled: Optional[Tensor] = None

    def bitterness(self, pellets: bool = False) -> Tensor:
        return TinsethBitterness.apply(
            self.alpha, self.grams, self.minutes, self.gravity, self.litres, self.boiled, 1.1 if pellets else 1.0
        )


def pasteur_units(celsius, clock, z_value=7.0, **kw):
    z_value = torch.as_tensor(z_value, dtype=celsius.dtype, device=celsius.device)
    return PasteurUnits.apply(celsius, clock, z_value, kw.get("reference", 60.0), kw.get("cutoff"))
