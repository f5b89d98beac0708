"""Depth-of-anaesthesia features for the theatre-monitoring models.

The module turns monitor streams (end-tidal agents, syringe-pump plasma
predictions) into the quantities the clinicians think in: age-adjusted MAC,
effect-site concentration and the probability of no response.
"""

from dataclasses import dataclass, field
from typing import Tuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

AGE_SLOPE = 0.00269  # Mapleson, per year, base 10
REFERENCE_AGE = 40.0
LN10 = 2.302585092994046

_TO_PERCENT = {"percent": 1.0, "kPa": 100.0 / 101.325, "mmHg": 100.0 / 760.0}


@dataclass
class AgentSet:
    """Agents in the order of the last axis of the monitor stream."""

    names: Tuple[str, ...] = ("sevoflurane", "desflurane", "isoflurane", "nitrous")
    mac40: Tuple[float, ...] = (1.80, 6.60, 1.17, 104.0)


@dataclass
class Surface:
    """Interaction surface of a hypnotic and an opioid."""

    h50: float = 3.1
    o50: float = 8.5
    interaction: float = 1.4
    steepness: float = 3.2
    kind: str = "greco"
    outcomes: Tuple[str, ...] = field(default=("laryngoscopy",))


def _reduce_to(grad: Tensor, like: Tensor) -> Tensor:
    return grad.sum_to_size(like.shape)


class MacFraction(torch.autograd.Function):
    """Age-adjusted MAC multiple of a mixture of volatile agents.

    Args:
        end_tidal: ``(patients, time, agents)`` end-tidal readings.
        age: ``(patients,)`` age in years.
        mac40: ``(agents,)`` MAC at 40 years, in percent of one atmosphere.
        unit: unit of the readings, ``"percent"``, ``"kPa"`` or ``"mmHg"``.
        over: ``"trace"`` for the whole curve, ``"peak"`` for its highest value.

    Returns:
        ``(patients, time)`` for a trace, ``(patients,)`` for a peak.
    """

    @staticmethod
    def forward(ctx, end_tidal, age, mac40, unit="percent", over="trace"):
        factor = _TO_PERCENT[unit]
        correction = torch.exp(LN10 * AGE_SLOPE * (age - REFERENCE_AGE))
        inverse = factor * correction[:, None] / mac40
        trace = torch.einsum("pta,pa->pt", end_tidal, inverse)
        if over == "trace":
            out, where = trace, None
        elif over == "peak":
            out, where = trace.max(dim=1)
        else:
            raise ValueError(f"unknown summary {over!r}")
        ctx.save_for_backward(end_tidal, inverse, mac40, where)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        end_tidal, inverse, mac40, where = ctx.saved_tensors
        if where is not None:
            full = grad.new_zeros(end_tidal.shape[:2])
            grad = full.scatter_(1, where[:, None], grad[:, None])
        grad_tidal = grad[:, :, None] * inverse[:, None, :]
        share = (grad_tidal * end_tidal).sum(dim=1)
        grad_age = LN10 * AGE_SLOPE * share.sum(dim=1)
        grad_mac = -(share / mac40).sum(dim=0)
        return grad_tidal, grad_age, grad_mac, None, None


class EffectSite(torch.autograd.Function):
    """First-order lag from plasma to effect site, irregularly sampled.

    Args:
        plasma: ``(patients, time)`` plasma concentration, held over the step
            that ends at the sample.
        ke0: ``(patients,)`` equilibration rate, per minute.
        start: ``(patients,)`` effect-site concentration before the first step.
        dt: ``(time,)`` step lengths in minutes (fixed by the pump).
        lengths: ``(patients,)`` number of valid steps; the rest reads zero.

    Returns:
        ``(patients, time)`` effect-site concentration.
    """

    @staticmethod
    def forward(ctx, plasma, ke0, start, dt, lengths):
        steps = plasma.shape[1]
        decay = torch.exp(-ke0[:, None] * dt)
        level, trail = start, []
        for t in range(steps):
            level = plasma[:, t] + (level - plasma[:, t]) * decay[:, t]
            trail.append(level)
        site = torch.stack(trail, dim=1)
        valid = torch.arange(steps, device=plasma.device) < lengths[:, None]
        ctx.save_for_backward(plasma, site, decay, dt, valid)
        return site * valid

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        plasma, site, decay, dt, valid = ctx.saved_tensors
        grad = grad * valid
        gap = plasma - site
        carry = torch.zeros_like(grad[:, 0])
        grad_plasma = torch.zeros_like(plasma)
        grad_ke0 = torch.zeros_like(carry)
        for t in reversed(range(plasma.shape[1])):
            carry = carry + grad[:, t]
            grad_plasma[:, t] = carry * (1 - decay[:, t])
            grad_ke0 = grad_ke0 + carry * gap[:, t] * dt[t] * decay[:, t]
            carry = carry * decay[:, t]
        return grad_plasma, grad_ke0, carry, None, None


class ResponseSurface(torch.autograd.Function):
    """Probability of no response for a hypnotic-opioid pair.

    Args:
        hypnotic: concentration, any shape.
        opioid: concentration, same shape. The two must not both be zero.
        h50, o50: concentrations of half effect alone, broadcastable.
        interaction: synergy, broadcastable; below 4 for ``"minto"``.
        steepness: Hill exponent, broadcastable.
        kind: ``"greco"`` or ``"minto"``.

    Returns:
        Probability with the shape of ``hypnotic``.
    """

    @staticmethod
    def forward(ctx, hypnotic, opioid, h50, o50, interaction, steepness, kind):
        uh, uo = hypnotic / h50, opioid / o50
        if kind == "greco":
            potency = uh + uo + interaction * uh * uo
        elif kind == "minto":
            theta = uh / (uh + uo)
            potency = (uh + uo) / (1 - interaction * theta * (1 - theta))
        else:
            raise ValueError(kind)
        prob = torch.sigmoid(steepness * torch.log(potency))
        ctx.save_for_backward(uh, uo, h50, o50, interaction, steepness, potency, prob)
        ctx.kind = kind
        return prob

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        uh, uo, h50, o50, interaction, steepness, potency, prob = ctx.saved_tensors
        inner = grad * prob * (1 - prob)
        to_potency = inner * steepness / potency
        if ctx.kind == "greco":
            d_uh, d_uo = 1 + interaction * uo, 1 + interaction * uh
            d_interaction = uh * uo
        else:
            total = uh + uo
            theta = uh / total
            half = 1 - interaction * theta * (1 - theta)
            bend = interaction * (1 - 2 * theta) / half**2
            d_uh = 1 / half + bend * uo / total
            d_uo = 1 / half - bend * uh / total
            d_interaction = total * theta * (1 - theta) / half**2
        g_uh, g_uo = to_potency * d_uh, to_potency * d_uo
        return (
            g_uh / h50,
            g_uo / o50,
            _reduce_to(-g_uh * uh / h50, h50),
            _reduce_to(-g_uo * uo / o50, o50),
            _reduce_to(to_potency * d_interaction, interaction),
            _reduce_to(inner * torch.log(potency), steepness),
            None,
        )


def no_response(hypnotic: Tensor, opioid: Tensor, surface: Surface) -> Tensor:
    """Evaluates the surface with the constants of ``surface``."""
    values = (surface.h50, surface.o50, surface.interaction, surface.steepness)
    return ResponseSurface.apply(
        hypnotic, opioid, *(hypnotic.new_tensor(v) for v in values), surface.kind
    )
