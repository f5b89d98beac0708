"""Cold-process soap formulation, differentiable end to end.

The pieces a soap workshop has on its bench sheet, written for gradient-based
recipe search:

* the caustic, water and batch weights that follow from a blend of oils,
* the bar qualities (hardness, cleansing, conditioning, lather) that follow
  from the fatty-acid make-up of the oils,
* the weight a bar loses on the curing rack.

Masses are in grams, saponification values in grams of NaOH per gram of oil,
moisture in grams of water per gram of dry bar.  Everything is dtype-agnostic;
the recipe search itself runs in float64.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

ACIDS = (
    "lauric",
    "myristic",
    "palmitic",
    "stearic",
    "ricinoleic",
    "oleic",
    "linoleic",
    "linolenic",
)
QUALITIES = ("hardness", "cleansing", "conditioning", "bubbly", "creamy")

# rows follow ACIDS, columns follow QUALITIES
ACID_QUALITY = (
    (1.0, 1.0, 0.0, 1.0, 0.0),
    (1.0, 1.0, 0.0, 1.0, 0.0),
    (1.0, 0.0, 0.0, 0.0, 1.0),
    (1.0, 0.0, 0.0, 0.0, 1.0),
    (0.0, 0.0, 1.0, 1.0, 1.0),
    (0.0, 0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0, 0.0),
)


@dataclasses.dataclass(frozen=True)
class Oil:
    """One line of the oil shelf: NaOH value and its main fatty acids."""

    name: str
    sap: float
    acids: tuple[tuple[str, float], ...]


SHELF = (
    Oil("olive", 0.135, (("oleic", 0.71), ("palmitic", 0.13), ("linoleic", 0.10))),
    Oil("coconut", 0.183, (("lauric", 0.48), ("myristic", 0.19), ("palmitic", 0.09), ("oleic", 0.08))),
    Oil("palm", 0.142, (("palmitic", 0.44), ("oleic", 0.39), ("linoleic", 0.10), ("stearic", 0.05))),
    Oil("castor", 0.128, (("ricinoleic", 0.90), ("oleic", 0.04))),
    Oil("shea", 0.128, (("stearic", 0.40), ("oleic", 0.48), ("linoleic", 0.06))),
)


class ShelfTables(NamedTuple):
    sap: Tensor  # (O,)
    content: Tensor  # (O, S)
    acid_index: Tensor  # (O, S) int64, -1 in unused slots


def shelf_tables(oils: Sequence[Oil] = SHELF, dtype: torch.dtype = torch.float64) -> ShelfTables:
    """Pack the shelf into rectangular tables; unused slots carry index -1."""
    width = max(len(oil.acids) for oil in oils)
    content = torch.zeros(len(oils), width, dtype=dtype)
    index = torch.full((len(oils), width), -1, dtype=torch.long)
    for row, oil in enumerate(oils):
        for slot, (acid, amount) in enumerate(oil.acids):
            content[row, slot] = amount
            index[row, slot] = ACIDS.index(acid)
    sap = torch.tensor([oil.sap for oil in oils], dtype=dtype)
    return ShelfTables(sap, content, index)


# --------------------------------------------------------------------------
# weights
# --------------------------------------------------------------------------


class SoapRecipe(Function):
    """Caustic, water and batch weights of a set of blends.

    Parameters
    ----------
    oil_mass : Tensor, shape (B, O)
        Grams of each oil.
    sap : Tensor, shape (O,)
        Grams of pure NaOH per gram of oil.
    superfat : Tensor, shape (B,)
        Share of the oil left unsaponified.
    purity : Tensor, shape ()
        Assay of the caustic.
    strength : Tensor, shape ()
        NaOH share of the lye solution by weight.

    Returns
    -------
    caustic, water, batch : Tensor, shape (B,) each
    """

    @staticmethod
    def forward(oil_mass, sap, superfat, purity, strength):
        active = (oil_mass @ sap) * (1.0 - superfat)
        caustic = active / purity
        water = active * (1.0 - strength) / strength
        batch = oil_mass.sum(-1) + caustic + water
        return caustic, water, batch

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g_caustic, g_water, g_batch):
        oil_mass, sap, superfat, purity, strength = ctx.saved_tensors
        neutral = oil_mass @ sap
        active = neutral * (1.0 - superfat)
        g_caustic = g_caustic + g_batch
        g_water = g_water + g_batch

        g_active = g_caustic / purity + g_water * (1.0 - strength) / strength
        g_purity = -(g_caustic * active).sum() / purity.square()
        g_strength = -(g_water * active).sum() / strength.square()
        g_superfat = -g_active * neutral
        g_neutral = g_active * (1.0 - superfat)
        g_mass = g_neutral[:, None] * sap + g_batch[:, None]
        g_sap = oil_mass.T @ g_neutral
        return g_mass, g_sap, g_superfat, g_purity, g_strength


# --------------------------------------------------------------------------
# bar qualities
# --------------------------------------------------------------------------


class AcidPropertyBlend(Function):
    """Bar qualities from the fatty-acid make-up of a blend.

    ``content[o, s]`` is the share of acid ``acid_index[o, s]`` in oil ``o``;
    slots with a negative index are padding.  Certificates usually leave a few
    per cent for minor acids and unsaponifiables.  With ``renormalise=True``
    each oil's listed shares are first scaled to sum to one, the convention of
    the printed tables.

    share (B, O), content (O, S), quality (A, Q) -> (B, Q)
    """

    @staticmethod
    def forward(ctx, share, content, quality, acid_index, renormalise=False):
        used = (acid_index >= 0).to(content.dtype)
        slot_acid = acid_index.clamp(min=0)
        profile = content * used
        total = profile.sum(-1, keepdim=True)
        if renormalise:
            profile = profile / total
        slot_quality = quality[slot_acid]
        per_oil = torch.einsum("os,osq->oq", profile, slot_quality)
        ctx.save_for_backward(share, profile, total, used, slot_acid, quality)
        ctx.renormalise = renormalise
        return share @ per_oil

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        share, profile, total, used, slot_acid, quality = ctx.saved_tensors
        slot_quality = quality[slot_acid]
        per_oil = torch.einsum("os,osq->oq", profile, slot_quality)

        g_share = grad @ per_oil.T
        g_oil = share.T @ grad
        g_profile = torch.einsum("oq,osq->os", g_oil, slot_quality)
        if ctx.renormalise:
            g_profile = g_profile / total
        g_content = g_profile * used

        g_slot = profile[..., None] * g_oil[:, None, :]
        g_quality = torch.zeros_like(quality)
        g_quality.index_add_(0, slot_acid.reshape(-1), g_slot.reshape(-1, quality.shape[-1]))
        return g_share, g_content, g_quality, None, None


# --------------------------------------------------------------------------
# curing rack
# --------------------------------------------------------------------------


def equilibrium_moisture(humidity: Tensor, scale: Tensor, asymptote: Tensor) -> Tensor:
    """Moisture a bar settles at; ``humidity`` is a fraction, asymptote > 1."""
    return scale * humidity / (asymptote - humidity)


class CureTrajectory(Function):
    """Moisture of bars drying on a rack, exact over each logging interval.

    Args:
        moisture: (B,) at unmoulding.
        rate: (B,) drying constant, 1/h per unit of area ratio.
        area: (B,) exposed area over volume, relative to the house bar.
        humidity: (T, B) held constant over an interval.
        hours: (T,) length of the intervals.
        scale: () of the sorption curve.
        asymptote: () of the sorption curve.

    Returns:
        The moisture at the end of each interval (T, B) and the total loss (B,).
    """

    @staticmethod
    def forward(ctx, moisture, rate, area, humidity, hours, scale, asymptote):
        settle = equilibrium_moisture(humidity, scale, asymptote)
        keep = torch.exp(-(rate * area) * hours[:, None])
        track = []
        now = moisture
        for target, decay in zip(settle, keep):
            now = target + (now - target) * decay
            track.append(now)
        track = torch.stack(track)
        ctx.save_for_backward(
            moisture, rate, area, humidity, hours, scale, asymptote, settle, keep, track
        )
        return track, moisture - track[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx, g_track, g_loss):
        (moisture, rate, area, humidity, hours, scale, asymptote, settle, keep, track) = ctx.saved_tensors
        speed = rate * area
        g_settle = torch.empty_like(settle)
        g_hours = torch.empty_like(hours)
        g_speed = torch.zeros_like(speed)
        carry = -g_loss
        for step in range(hours.shape[0] - 1, -1, -1):
            before = track[step - 1] if step > 0 else moisture
            carry = carry + g_track[step]
            g_settle[step] = carry * (1.0 - keep[step])
            g_log = carry * (before - settle[step]) * keep[step]
            g_speed = g_speed - g_log * hours[step]
            g_hours[step] = -(g_log * speed).sum()
            carry = carry * keep[step]
        g_moisture = carry + g_loss

        room = asymptote - humidity
        g_humidity = g_settle * scale * asymptote / room.square()
        g_scale = (g_settle * humidity / room).sum()
        g_asymptote = -(g_settle * scale * humidity / room.square()).sum()
        return g_moisture, g_speed * area, g_speed * rate, g_humidity, g_hours, g_scale, g_asymptote


# --------------------------------------------------------------------------
# modules
# --------------------------------------------------------------------------


class Kettle(nn.Module):
    """A trainable recipe: softmax over the shelf, fixed oil weight."""

    def __init__(self, oils: Sequence[Oil] = SHELF, oil_grams: float = 1000.0, printed_tables: bool = False):
        super().__init__()
        tables = shelf_tables(oils)
        self.oil_grams = oil_grams
        self.printed_tables = printed_tables
        self.logits = nn.Parameter(torch.zeros(1, len(oils), dtype=torch.float64))
        self.superfat = nn.Parameter(torch.full((1,), 0.05, dtype=torch.float64))
        self.content = nn.Parameter(tables.content)
        self.quality = nn.Parameter(torch.tensor(ACID_QUALITY, dtype=torch.float64))
        self.register_buffer("sap", tables.sap)
        self.register_buffer("acid_index", tables.acid_index)
        self.register_buffer("purity", torch.tensor(0.98, dtype=torch.float64))
        self.register_buffer("strength", torch.tensor(0.33, dtype=torch.float64))

    def forward(self) -> dict[str, Tensor]:
        share = self.logits.softmax(-1)
        caustic, water, batch = SoapRecipe.apply(
            share * self.oil_grams, self.sap, self.superfat, self.purity, self.strength
        )
        bar = AcidPropertyBlend.apply(
            share, self.content, self.quality, self.acid_index, self.printed_tables
        )
        return {"caustic": caustic, "water": water, "batch": batch, "qualities": bar}


class CuringRack(nn.Module):
    def __init__(self, bars: int):
        super().__init__()
        self.log_rate = nn.Parameter(torch.full((bars,), -5.5, dtype=torch.float64))
        self.scale = nn.Parameter(torch.tensor(0.06, dtype=torch.float64))
        self.asymptote = nn.Parameter(torch.tensor(1.3, dtype=torch.float64))

    def forward(self, moisture: Tensor, area: Tensor, humidity: Tensor, hours: Tensor):
        return CureTrajectory.apply(
            moisture, self.log_rate.exp(), area, humidity, hours, self.scale, self.asymptote
        )


def search(target: Tensor, steps: int = 60, printed_tables: bool = False) -> Kettle:
    kettle = Kettle(printed_tables=printed_tables)
    optimiser = torch.optim.Adam([kettle.logits, kettle.superfat], lr=0.05)
    for _ in range(steps):
        optimiser.zero_grad()
        sheet = kettle()
        miss = (sheet["qualities"] - target).square().sum()
        cost = miss + 1e-7 * sheet["batch"].sum()
        cost.backward()
        optimiser.step()
    return kettle


if __name__ == "__main__":
    wanted = torch.tensor([[0.42, 0.16, 0.52, 0.22, 0.30]], dtype=torch.float64)
    found = search(wanted)
    print(dict(zip((oil.name for oil in SHELF), found.logits.softmax(-1)[0].tolist())))
    rack = CuringRack(3)
    moist, lost = rack(
        torch.tensor([0.42, 0.40, 0.45], dtype=torch.float64),
        torch.tensor([1.0, 1.2, 0.9], dtype=torch.float64),
        torch.full((6, 3), 0.55, dtype=torch.float64),
        torch.tensor([24.0, 24.0, 48.0, 96.0, 168.0, 336.0], dtype=torch.float64),
    )
    print(moist[-1].tolist(), lost.tolist())
