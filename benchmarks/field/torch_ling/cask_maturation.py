"""Forward model of spirit maturation in a racked warehouse.

A filling of new-make spirit is followed season by season.  Three things are
modelled, each by an operator whose gradient is coded by hand since the whole
chain sits in the inner loop of a stock-planning optimiser:

* evaporation through the staves ("the angels' share"), separately for water
  and ethanol, driven by the climate of the floor a cask is racked on;
* extraction of wood compounds, by a fast and a slow pool, weakened by every
  earlier fill of the cask;
* vatting of a parcel of casks and reduction to bottling strength.

Volumes are litres at 20 degC, strengths are fractions of alcohol by volume,
temperatures degC, humidities fractions in [0, 1], ages months.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

REFERENCE_TEMPERATURE = 12.0   # degC, mean of a dunnage warehouse
ARRHENIUS_SLOPE = 0.055        # 1/degC, linearised activation
ETHANOL_RATE = 0.0042          # 1/season at the reference temperature
WATER_RATE = 0.0110            # 1/season per unit of (1 - humidity)
CONTRACTION = 0.062            # litres per litre and unit of strength drop
BOTTLING_STRENGTH = 0.40

# nominal volume (l) and wetted inner surface (m^2)
CASK_TYPES = {
    "barrel": (190.0, 1.93),
    "hogshead": (250.0, 2.32),
    "butt": (500.0, 3.66),
    "quarter": (125.0, 1.47),
}


class Climate(NamedTuple):
    """Season-by-season conditions; both tensors are (floors, seasons)."""

    temperature: Tensor
    humidity: Tensor


@dataclass
class Parcel:
    """A parcel of casks laid down together."""

    kinds: Sequence[str]
    floors: Sequence[int]
    fills: Sequence[int]
    strength: float = 0.635
    names: Sequence[str] = field(default_factory=tuple)

    def volumes(self, dtype=torch.float32) -> Tensor:
        return torch.tensor([CASK_TYPES[k][0] for k in self.kinds], dtype=dtype)

    def surface_to_volume(self, dtype=torch.float32) -> Tensor:
        ratio = [CASK_TYPES[k][1] / CASK_TYPES[k][0] for k in self.kinds]
        reference = CASK_TYPES["barrel"][1] / CASK_TYPES["barrel"][0]
        return torch.tensor(ratio, dtype=dtype) / reference


def split_filling(volume: Tensor, strength: float | Tensor) -> tuple[Tensor, Tensor]:
    """Water and ethanol litres of a filling (contraction is ignored here)."""
    ethanol = volume * strength
    return volume - ethanol, ethanol


def _rev_cumsum(x: Tensor, dim: int) -> Tensor:
    return x.flip(dim).cumsum(dim).flip(dim)


class AngelShare(Function):
    """Volume and strength of every cask at the end of every season.

    water, ethanol : (casks,) litres at filling
    temperature, humidity : (floors, seasons)
    floor_of : (casks,) long, the floor a cask is racked on; floors hold
        many casks
    """

    @staticmethod
    def forward(ctx, water, ethanol, temperature, humidity, floor_of):
        activity = torch.exp(ARRHENIUS_SLOPE * (temperature - REFERENCE_TEMPERATURE))
        dryness = 1.0 - humidity
        e_dose = ETHANOL_RATE * activity.cumsum(dim=1)
        w_dose = WATER_RATE * (activity * dryness).cumsum(dim=1)

        e_keep = torch.exp(-e_dose)[floor_of]
        w_keep = torch.exp(-w_dose)[floor_of]
        e = ethanol[:, None] * e_keep
        w = water[:, None] * w_keep
        volume = w + e
        strength = e / volume

        ctx.save_for_backward(w, e, w_keep, e_keep, activity, dryness, floor_of)
        return volume, strength

    @staticmethod
    @once_differentiable
    def backward(ctx, g_volume, g_strength):
        w, e, w_keep, e_keep, activity, dryness, floor_of = ctx.saved_tensors
        volume = w + e
        g_e = g_volume + g_strength * w / volume.square()
        g_w = g_volume - g_strength * e / volume.square()

        g_ethanol = (g_e * e_keep).sum(dim=1)
        g_water = (g_w * w_keep).sum(dim=1)

        # doses are shared by all the casks of a floor
        zero = torch.zeros_like(activity)
        g_e_dose = zero.index_add(0, floor_of, -g_e * e)
        g_w_dose = zero.index_add(0, floor_of, -g_w * w)
        g_e_step = ETHANOL_RATE * _rev_cumsum(g_e_dose, 1)
        g_w_step = WATER_RATE * _rev_cumsum(g_w_dose, 1)

        g_activity = g_e_step + g_w_step * dryness
        g_temperature = ARRHENIUS_SLOPE * activity * g_activity
        g_humidity = -g_w_step * activity
        return g_water, g_ethanol, g_temperature, g_humidity, None


class CharExtraction(Function):
    """Concentration of wood compounds against age.

    Parameters
    ----------
    ceiling : Tensor, shape (compounds,)
        Asymptote for a first-fill barrel, mg/l.
    retention : Tensor, shape (compounds,)
        Part of the extractable stock a fill leaves to the next one.
    rates : Tensor, shape (compounds, 2)
        Fast and slow rate, 1/month.
    split : Tensor, shape (compounds,)
        Share of the fast pool.
    age : Tensor, shape (casks, samples)
        Months at which a sample was drawn.
    exposure : Tensor, shape (casks,)
        Surface-to-volume ratio relative to a barrel.
    fill : LongTensor, shape (casks,)
        1 for first fill, 2 for second fill and so on.

    Returns
    -------
    Tensor, shape (casks, samples, compounds)
    """

    @staticmethod
    def forward(ceiling, retention, rates, split, age, exposure, fill):
        tired = retention[None, :] ** (fill - 1).to(retention.dtype)[:, None]
        t = age[:, :, None]
        uptake = split * -torch.expm1(-rates[:, 0] * t) + (1.0 - split) * -torch.expm1(
            -rates[:, 1] * t
        )
        return ceiling * (tired * exposure[:, None])[:, None, :] * uptake

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        ceiling, retention, rates, split, age, exposure, fill = ctx.saved_tensors
        order = (fill - 1).to(retention.dtype)[:, None]
        tired = retention[None, :] ** order
        t = age[:, :, None]
        fast = torch.exp(-rates[:, 0] * t)
        slow = torch.exp(-rates[:, 1] * t)
        uptake = split * (1.0 - fast) + (1.0 - split) * (1.0 - slow)
        scale = (tired * exposure[:, None])[:, None, :]

        g_ceiling = (grad * scale * uptake).sum(dim=(0, 1))

        by_cask = (grad * uptake).sum(dim=1) * ceiling          # (casks, compounds)
        d_tired = torch.where(
            order > 0,
            retention[None, :] ** (order - 1.0),
            torch.zeros_like(tired),
        )
        g_retention = (by_cask * exposure[:, None] * d_tired).sum(dim=0)
        g_exposure = (by_cask * tired).sum(dim=1)

        g_uptake = grad * ceiling * scale
        g_split = (g_uptake * (slow - fast)).sum(dim=(0, 1))
        g_rates = torch.stack(
            [
                (g_uptake * split * t * fast).sum(dim=(0, 1)),
                (g_uptake * (1.0 - split) * t * slow).sum(dim=(0, 1)),
            ],
            dim=1,
        )
        g_age = (
            g_uptake * (split * rates[:, 0] * fast + (1.0 - split) * rates[:, 1] * slow)
        ).sum(dim=2)
        return g_ceiling, g_retention, g_rates, g_split, g_age, g_exposure, None


class VatToStrength(Function):
    """Marry casks in a vat and reduce with water to ``target``.

    ``volume`` and ``strength`` are (vats, casks).  A vat that is already at or
    under the target is bottled as it is, without water.  Returns the bottled
    volume, the water used and the strength of the vat before reduction, each
    (vats,).
    """

    @staticmethod
    def forward(ctx, volume, strength, target=BOTTLING_STRENGTH):
        total = volume.sum(dim=1)
        alcohol = (volume * strength).sum(dim=1)
        vat = alcohol / total
        over = vat > target
        full = alcohol / target
        make_up = CONTRACTION * total * (vat - target)
        bottled = torch.where(over, full, total)
        water = torch.where(over, full - total + make_up, torch.zeros_like(total))
        ctx.save_for_backward(volume, strength, total, vat, over)
        ctx.target = target
        return bottled, water, vat

    @staticmethod
    def backward(ctx, g_bottled, g_water, g_vat):
        volume, strength, total, vat, over = ctx.saved_tensors
        target = ctx.target
        g_water = torch.where(over, g_water, torch.zeros_like(g_water))

        g_alcohol = (g_bottled + g_water) / target
        # make-up water: CONTRACTION * (alcohol - target * total)
        g_alcohol = g_alcohol + CONTRACTION * g_water
        g_total = -g_water * (1.0 + CONTRACTION * target)

        g_alcohol = g_alcohol + g_vat / total
        g_total = g_total - g_vat * vat / total

        g_volume = g_alcohol[:, None] * strength + g_total[:, None]
        g_strength = g_alcohol[:, None] * volume
        return g_volume, g_strength, None


class WoodProfile(nn.Module):
    """Learnable extraction constants of a set of compounds."""

    def __init__(self, compounds: Sequence[str], dtype=torch.float32):
        super().__init__()
        n = len(compounds)
        self.compounds = tuple(compounds)
        self.log_ceiling = nn.Parameter(torch.linspace(0.0, 2.0, n, dtype=dtype))
        self.retention_logit = nn.Parameter(torch.full((n,), 0.6, dtype=dtype))
        self.log_rates = nn.Parameter(
            torch.tensor([[math.log(0.25), math.log(0.012)]] * n, dtype=dtype)
        )
        self.split_logit = nn.Parameter(torch.zeros(n, dtype=dtype))

    def forward(self, age: Tensor, exposure: Tensor, fill: Tensor) -> Tensor:
        return CharExtraction.apply(
            self.log_ceiling.exp(),
            torch.sigmoid(self.retention_logit),
            self.log_rates.exp(),
            torch.sigmoid(self.split_logit),
            age,
            exposure,
            fill,
        )


class Warehouse(nn.Module):
    """Warehouse whose floor climate may be tuned (racking plans, ventilation)."""

    def __init__(self, climate: Climate):
        super().__init__()
        self.temperature = nn.Parameter(climate.temperature.clone())
        self.humidity_logit = nn.Parameter(torch.logit(climate.humidity))

    def forward(self, parcel: Parcel) -> tuple[Tensor, Tensor]:
        dtype = self.temperature.dtype
        water, ethanol = split_filling(parcel.volumes(dtype), parcel.strength)
        floor_of = torch.tensor(list(parcel.floors))
        return AngelShare.apply(
            water, ethanol, self.temperature, torch.sigmoid(self.humidity_logit), floor_of
        )


def seasonal_climate(floors: int, seasons: int, dtype=torch.float32) -> Climate:
    """A warm top floor, a damp ground floor and four seasons a year."""
    phase = torch.arange(seasons, dtype=dtype) * (math.pi / 2)
    lift = torch.linspace(0.0, 9.0, floors, dtype=dtype)[:, None]
    temperature = 10.0 + lift + 6.0 * torch.sin(phase)
    humidity = (0.82 - 0.03 * lift + 0.03 * torch.cos(phase)).clamp(0.05, 0.97)
    return Climate(temperature, humidity)


def release_cost(bottled: Tensor, water: Tensor, vat: Tensor, price: float = 28.0) -> Tensor:
    """Negative revenue plus a penalty for vats that fall out of strength."""
    shortfall = torch.relu(BOTTLING_STRENGTH + 0.02 - vat)
    return (-price * bottled + 0.02 * water).sum() + 1e3 * shortfall.square().sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    parcel = Parcel(
        kinds=["barrel", "hogshead", "butt", "barrel", "quarter"],
        floors=[0, 0, 2, 1, 2],
        fills=[1, 2, 1, 3, 4],
    )
    house = Warehouse(seasonal_climate(3, 40))
    wood = WoodProfile(["vanillin", "lactone", "ellagic"])
    volume, strength = house(parcel)
    ages = torch.tensor([[12.0, 60.0, 120.0]]).repeat(5, 1)
    notes = wood(ages, parcel.surface_to_volume(), torch.tensor(parcel.fills))
    bottled, water, vat = VatToStrength.apply(volume[None, :, -1], strength[None, :, -1])
    loss = release_cost(bottled, water, vat) - notes.mean()
    loss.backward()
    print("bottled", bottled.tolist(), "water", water.tolist(), "vat", vat.tolist())
    print("d loss / d temperature", house.temperature.grad.norm().item())
