"""Cellar book: sulphite, assemblage and topping-up.

The cellar book keeps three kinds of entries, each with a differentiable model
so that additions and blends can be planned by gradient descent against the
tasting panel's targets:

1. the free sulphite of a lot and how much of it is in the molecular form,
2. the assemblage of lots into cuvees (traits mix by volume, acidity mixes in
   hydrogen-ion concentration),
3. the ullage of barrels that evaporate and are topped up every few weeks.

Volumes are in hectolitres or in shares of the press, whichever the caller
likes; concentrations in mg/L; temperatures in degrees Celsius.
"""

from __future__ import annotations

import math
from typing import Dict, NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

LN10 = math.log(10.0)

# First dissociation of sulphurous acid in a model wine.
PKA_REFERENCE = 1.95
PKA_PER_DEGREE = 0.0112
PKA_PER_ALCOHOL = 0.0155
REFERENCE_TEMPERATURE = 20.0
REFERENCE_ALCOHOL = 12.0

EMPTY_CUVEE_PH = 7.0
BARRIQUE_LITRES = 225.0


class Lot(NamedTuple):
    """One lot of the vintage as entered by the laboratory."""

    name: str
    volume: float
    ph: float
    alcohol: float
    tannin: float
    colour: float


TRAITS = ("alcohol", "tannin", "colour")


def trait_table(lots: Sequence[Lot], dtype=torch.float64) -> Tensor:
    """(lots, traits)"""
    return torch.tensor([[getattr(lot, t) for t in TRAITS] for lot in lots], dtype=dtype)


def ph_row(lots: Sequence[Lot], dtype=torch.float64) -> Tensor:
    return torch.tensor([lot.ph for lot in lots], dtype=dtype)


def sulphurous_pka(temperature: Tensor, alcohol: Tensor) -> Tensor:
    return (
        PKA_REFERENCE
        + PKA_PER_DEGREE * (temperature - REFERENCE_TEMPERATURE)
        + PKA_PER_ALCOHOL * (alcohol - REFERENCE_ALCOHOL)
    )


class SulphiteForms(Function):
    """Molecular and bisulphite parts of the free sulphite.

    All four inputs have one shape (see :func:`sulphite_forms`, which
    broadcasts).
    """

    @staticmethod
    def forward(free, ph, temperature, alcohol):
        share = torch.sigmoid(LN10 * (sulphurous_pka(temperature, alcohol) - ph))
        return free * share, free * (1.0 - share)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_molecular, grad_bisulphite):
        free, ph, temperature, alcohol = ctx.saved_tensors
        share = torch.sigmoid(LN10 * (sulphurous_pka(temperature, alcohol) - ph))
        grad_free = grad_molecular * share + grad_bisulphite * (1.0 - share)
        grad_share = free * (grad_molecular - grad_bisulphite)
        grad_pka = grad_share * LN10 * share * (1.0 - share)
        return (
            grad_free,
            -grad_pka,
            PKA_PER_DEGREE * grad_pka,
            PKA_PER_ALCOHOL * grad_pka,
        )


def sulphite_forms(free, ph, temperature, alcohol):
    """Broadcast the inputs, then split; returns ``(molecular, bisulphite)``."""
    return SulphiteForms.apply(*torch.broadcast_tensors(free, ph, temperature, alcohol))


class Assemblage(Function):
    """Blend lots into cuvees.

    Args:
        volumes: (C, L), volume of lot l that goes into cuvee c, non-negative.
        traits: (L, A), traits which mix in proportion to volume.
        ph: (L,), acidity of each lot.
        allowed: (C, L) bool, the appellation's list of admitted lots; volumes
            of others are ignored.

    Returns:
        blended traits (C, A), total volume (C,), blended pH (C,).  A cuvee
        without any wine has zero traits and the pH of water.
    """

    @staticmethod
    def forward(ctx, volumes, traits, ph, allowed):
        poured = volumes * allowed.to(volumes.dtype)
        total = poured.sum(1)
        filled = total > 0
        scale = torch.where(filled, total, torch.ones_like(total))
        share = poured / scale[:, None]
        mixed = share @ traits
        ions = torch.pow(10.0, -ph)
        strength = share @ ions
        strength = torch.where(
            filled, strength, torch.full_like(strength, 10.0**-EMPTY_CUVEE_PH)
        )
        ctx.save_for_backward(share, scale, filled, traits, ions, mixed, strength, allowed)
        return mixed, total, -torch.log10(strength)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_mixed, grad_total, grad_ph):
        share, scale, filled, traits, ions, mixed, strength, allowed = ctx.saved_tensors
        live = filled.to(share.dtype)
        grad_mixed = grad_mixed * live[:, None]
        grad_ph = grad_ph * live

        grad_volumes = grad_traits = grad_acid = None
        relative = ions[None, :] / strength[:, None]
        if ctx.needs_input_grad[0]:
            pull = grad_mixed @ traits.t()
            mean = (grad_mixed * mixed).sum(1, keepdim=True)
            grad_volumes = (pull - mean) / scale[:, None] + grad_total[:, None]
            grad_volumes = grad_volumes - grad_ph[:, None] * (relative - 1.0) / LN10
            grad_volumes = grad_volumes * allowed.to(share.dtype)
        if ctx.needs_input_grad[1]:
            grad_traits = share.t() @ grad_mixed
        if ctx.needs_input_grad[2]:
            grad_acid = (grad_ph[:, None] * share * relative).sum(0)
        return grad_volumes, grad_traits, grad_acid, None


def make_topping_rule(every: int = 4, efficiency: float = 0.97, capacity: float = BARRIQUE_LITRES):
    """Barrel ledger for a cellar that tops up at the end of every ``every`` weeks.

    ``efficiency`` is the part of the ullage that is refilled (some headspace
    stays below the bung).  The returned function takes the first level (B,) and
    weekly loss rates (B, T), and gives the level at the end of each week (B, T)
    and the wine used for topping up over the whole period (B,).
    """
    if every < 1:
        raise ValueError("every must be at least one week")

    class BarrelLedger(Function):
        @staticmethod
        def forward(ctx, first, rate):
            level = first
            before, after = [], []
            used = torch.zeros_like(first)
            for week in range(rate.shape[1]):
                before.append(level)
                level = level * (1.0 - rate[:, week])
                if (week + 1) % every == 0:
                    refill = efficiency * (capacity - level)
                    used = used + refill
                    level = level + refill
                after.append(level)
            ctx.save_for_backward(torch.stack(before, 1), rate)
            return torch.stack(after, 1), used

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_levels, grad_used):
            before, rate = ctx.saved_tensors
            grad_rate = torch.empty_like(rate)
            carry = torch.zeros_like(before[:, 0])
            for back, week in enumerate(reversed(range(rate.shape[1]))):
                carry = carry + grad_levels[:, week]
                if back % every == 0:
                    carry = (1.0 - efficiency) * carry - efficiency * grad_used
                grad_rate[:, week] = -carry * before[:, week]
                carry = carry * (1.0 - rate[:, week])
            return carry, grad_rate

    return BarrelLedger.apply


def evaporation_rate(humidity: Tensor, temperature: Tensor, slope: Tensor) -> Tensor:
    """Weekly loss rate from cellar climate: dry and warm cellars lose more."""
    deficit = (1.0 - humidity) * torch.exp(0.06 * (temperature - 14.0))
    return 0.002 + slope * deficit


class CellarPlanner(nn.Module):
    """Plans the assemblage of a vintage.

    ``logits`` hold the log of the volume of every lot in every cuvee.
    """

    def __init__(
        self,
        lots: Sequence[Lot],
        cuvees: int,
        allowed: Tensor,
        topping_weeks: int = 4,
        in_shares: bool = False,
    ):
        super().__init__()
        volumes = torch.tensor([lot.volume for lot in lots], dtype=torch.float64)
        if in_shares:
            volumes = volumes / volumes.sum()
        self.register_buffer("traits", trait_table(lots))
        self.register_buffer("ph", ph_row(lots))
        self.register_buffer("allowed", allowed)
        self.logits = nn.Parameter(torch.log(volumes / cuvees).repeat(cuvees, 1))
        self.loss_slope = nn.Parameter(torch.tensor(0.006, dtype=torch.float64))
        self.topping = make_topping_rule(topping_weeks)

    def blend(self):
        return Assemblage.apply(self.logits.exp(), self.traits, self.ph, self.allowed)

    def ageing(self, humidity: Tensor, temperature: Tensor):
        """Levels and topping wine of barrels in each corner of the cellar (B, T)."""
        rate = evaporation_rate(humidity, temperature, self.loss_slope)
        first = torch.full((rate.shape[0],), BARRIQUE_LITRES, dtype=rate.dtype)
        return self.topping(first, rate)

    def forward(self, target: Dict[str, Tensor], free: Tensor) -> Tensor:
        mixed, total, ph = self.blend()
        molecular, _ = sulphite_forms(
            free, ph, torch.full_like(ph, 14.0), mixed[:, TRAITS.index("alcohol")]
        )
        loss = (mixed - target["traits"]).square().mean()
        loss = loss + (ph - target["ph"]).square().mean()
        loss = loss + (molecular - target["molecular"]).square().mean()
        return loss + 1e-3 * (total - target["volume"]).square().mean()


if __name__ == "__main__":
    vintage = [
        Lot("clos haut", 40.0, 3.42, 13.1, 2.9, 7.5),
        Lot("riviere", 65.0, 3.71, 12.2, 1.8, 5.1),
        Lot("vieilles vignes", 18.0, 3.55, 13.9, 3.6, 9.0),
        Lot("presse", 9.0, 3.88, 12.8, 4.4, 8.8),
    ]
    admitted = torch.tensor([[True, True, True, False], [False, True, True, True]])
    planner = CellarPlanner(vintage, 2, admitted)
    wanted = {
        "traits": torch.tensor([[13.0, 2.6, 7.0], [12.6, 3.0, 7.4]], dtype=torch.float64),
        "ph": torch.tensor([3.5, 3.6], dtype=torch.float64),
        "molecular": torch.tensor([0.6, 0.6], dtype=torch.float64),
        "volume": torch.tensor([60.0, 50.0], dtype=torch.float64),
    }
    loss = planner(wanted, torch.tensor([28.0, 32.0], dtype=torch.float64))
    loss.backward()
    print("planning loss", loss.item(), planner.logits.grad)
    climate = torch.rand(3, 12, dtype=torch.float64)
    levels, used = planner.ageing(0.6 + 0.3 * climate, 12.0 + 4.0 * climate)
    print("topping wine", used.tolist())
