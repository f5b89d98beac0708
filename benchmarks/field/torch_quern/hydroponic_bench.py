"""Nutrient solution of a recirculating lettuce bench.

The controller of the bench learns from three signals: the conductivity the
probe reads, the uptake by the roots, and how the tank drifts over the day as
the plants drink water and ions at different paces.  Concentrations are in
mmol/L, volumes in L, conductivity in uS/cm, temperatures in degrees Celsius.

    tank = Tank(ions=default_ions())
    reading = tank(...)
"""

import math
from typing import Dict, List, NamedTuple, Optional

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

REFERENCE_TEMPERATURE = 25.0
TEMPERATURE_SLOPE = 0.019  # per degree, the probe's usual setting
MILLI = 1e-3


class Ion(NamedTuple):
    symbol: str
    charge: int
    mobility: float  # S cm2 / equivalent
    target: float  # mmol/L


def default_ions() -> List[Ion]:
    return [
        Ion("NO3", -1, 71.4, 14.0),
        Ion("K", 1, 73.5, 6.0),
        Ion("Ca", 2, 59.5, 4.0),
        Ion("Mg", 2, 53.1, 1.0),
        Ion("SO4", -2, 80.0, 1.5),
        Ion("H2PO4", -1, 36.0, 1.0),
        Ion("NH4", 1, 73.5, 1.0),
    ]


def ion_tables(ions: List[Ion], dtype=torch.float64) -> Dict[str, Tensor]:
    return {
        "charge": torch.tensor([ion.charge for ion in ions]),
        "mobility": torch.tensor([ion.mobility for ion in ions], dtype=dtype),
        "target": torch.tensor([ion.target for ion in ions], dtype=dtype),
    }


# ------------------------------------------------------------- conductivity


class IonConductivity(Function):
    """Conductivity of a mixed electrolyte, damped by its ionic strength.

    forward(conc, mobility, temperature, charge, damping)

    conc         (B, N)   mmol/L, at least one ion present
    mobility     (N,)     equivalent conductivities at infinite dilution
    temperature  (B,)
    charge       (N,)     signed integers
    damping      float    strength of the interionic drag

    Gives the reading (B,) in uS/cm and the ionic strength (B,) in mol/L.
    """

    @staticmethod
    def forward(conc, mobility, temperature, charge, damping=0.55):
        valence = charge.abs().to(conc.dtype)
        strength = 0.5 * MILLI * (conc * valence.square()).sum(-1)
        root = strength.sqrt()
        drag = 1.0 - damping * root / (1.0 + root)
        warm = 1.0 + TEMPERATURE_SLOPE * (temperature - REFERENCE_TEMPERATURE)
        reading = (conc * valence * mobility).sum(-1) * drag * warm
        return reading, strength

    @staticmethod
    def setup_context(ctx, inputs, output):
        conc, mobility, temperature, charge, damping = inputs
        ctx.save_for_backward(conc, mobility, temperature, charge, output[1])
        ctx.damping = damping

    @staticmethod
    def backward(ctx, g_reading, g_strength):
        conc, mobility, temperature, charge, strength = ctx.saved_tensors
        valence = charge.abs().to(conc.dtype)
        root = strength.sqrt()
        drag = 1.0 - ctx.damping * root / (1.0 + root)
        warm = 1.0 + TEMPERATURE_SLOPE * (temperature - REFERENCE_TEMPERATURE)
        ideal = (conc * valence * mobility).sum(-1)

        g_ideal = g_reading * drag * warm
        g_drag = g_reading * ideal * warm
        g_root = -g_drag * ctx.damping / (1.0 + root).square()
        g_strength = g_strength + g_root / (2.0 * root)

        g_conc = g_ideal[:, None] * valence * mobility + 0.5 * MILLI * g_strength[:, None] * valence
        g_mobility = (g_ideal[:, None] * conc * valence).sum(0)
        g_temperature = g_reading * ideal * drag * TEMPERATURE_SLOPE
        return g_conc, g_mobility, g_temperature, None, None


# ------------------------------------------------------------------- uptake


class CompetingUptake(Function):
    """Michaelis-Menten uptake where every ion can hinder every other.

    .. math::
        J_{bi} = m_{bi} q^{(T_b - 25)/10}
            \\frac{V_i c_{bi}}{K_i (1 + \\sum_j h_{ij} c_{bj}) + c_{bi}}

    Parameters
    ----------
    conc : (B, N)
    vmax, km : (N,)
    hinder : (N, N), row ``i`` lists what hinders ion ``i``
    temperature : (B,)
    q10 : ()
    measured : (B, N) bool, uptake of the other entries is zero

    Returns
    -------
    (B, N) uptake
    """

    @staticmethod
    def forward(ctx, conc, vmax, km, hinder, temperature, q10, measured):
        crowd = 1.0 + conc @ hinder.T
        bottom = km * crowd + conc
        decades = (temperature - REFERENCE_TEMPERATURE) / 10.0
        warm = torch.pow(q10, decades)[:, None] * measured
        uptake = warm * vmax * conc / bottom
        ctx.save_for_backward(conc, vmax, km, hinder, q10, decades, crowd, bottom, warm, uptake)
        return uptake

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        conc, vmax, km, hinder, q10, decades, crowd, bottom, warm, uptake = ctx.saved_tensors
        g = grad * warm
        g_vmax = (g * conc / bottom).sum(0)
        g_bottom = -grad * uptake / bottom
        g_crowd = g_bottom * km
        g_conc = g * vmax / bottom + g_bottom + g_crowd @ hinder
        g_km = (g_bottom * crowd).sum(0)
        g_hinder = g_crowd.T @ conc

        per_row = (grad * uptake).sum(-1)
        g_temperature = per_row * torch.log(q10) / 10.0
        g_q10 = (per_row * decades).sum() / q10
        return g_conc, g_vmax, g_km, g_hinder, g_temperature, g_q10, None


# --------------------------------------------------------------------- tank


class ReservoirHours(Function):
    """Hour-by-hour balance of tanks that are dumped on a schedule.

    A tank starts with ``volume`` litres of the feed.  Each hour the plants take
    ``uptake`` (mmol) and drink ``drunk`` (L), and ``topup`` litres of plain
    water come in.  Every ``dump_every`` hours the tank is drained and refilled
    to its starting volume before the hour begins; 0 never drains.

    feed (N,), volume (B,), uptake (T, B, N), drunk (T, B), topup (T, B)

    Returns the concentrations (T, B, N) and volumes (T, B) at the ends of the
    hours, and the ions (B, N) that went down the drain.
    """

    @staticmethod
    def forward(ctx, feed, volume, uptake, drunk, topup, dump_every=24):
        litres = volume
        amount = volume[:, None] * feed
        drained = torch.zeros_like(amount)
        concs, litre_log, amount_log = [], [], []
        for hour in range(uptake.shape[0]):
            if dump_every and hour and hour % dump_every == 0:
                drained = drained + amount
                litres = volume
                amount = volume[:, None] * feed
            litres = litres - drunk[hour] + topup[hour]
            amount = amount - uptake[hour]
            concs.append(amount / litres[:, None])
            litre_log.append(litres)
            amount_log.append(amount)
        concs, litre_log = torch.stack(concs), torch.stack(litre_log)
        ctx.save_for_backward(feed, volume, concs, litre_log)
        ctx.dump_every = dump_every
        return concs, litre_log, drained

    @staticmethod
    @once_differentiable
    def backward(ctx, g_concs, g_litre_log, g_drained):
        feed, volume, concs, litre_log = ctx.saved_tensors
        hours = concs.shape[0]
        g_feed = torch.zeros_like(feed)
        g_volume = torch.zeros_like(volume)
        g_uptake = torch.empty_like(concs)
        g_drunk = torch.empty_like(litre_log)
        g_amount = torch.zeros_like(g_drained)
        g_litres = torch.zeros_like(volume)
        for hour in range(hours - 1, -1, -1):
            per_litre = g_concs[hour] / litre_log[hour][:, None]
            g_amount = g_amount + per_litre
            g_litres = g_litres + g_litre_log[hour] - (per_litre * concs[hour]).sum(-1)
            g_uptake[hour] = -g_amount
            g_drunk[hour] = -g_litres
            if ctx.dump_every and hour and hour % ctx.dump_every == 0:
                g_feed = g_feed + (g_amount * volume[:, None]).sum(0)
                g_volume = g_volume + g_litres
                g_amount = g_drained
                g_litres = torch.zeros_like(g_litres)
        g_feed = g_feed + (g_amount * volume[:, None]).sum(0)
        g_volume = g_volume + g_litres + (g_amount * feed).sum(-1)
        return g_feed, g_volume, g_uptake, g_drunk, -g_drunk, None


# ------------------------------------------------------------------ modules


class Probe(nn.Module):
    def __init__(self, ions: Optional[List[Ion]] = None, damping: float = 0.55):
        super().__init__()
        tables = ion_tables(ions or default_ions())
        self.damping = damping
        self.register_buffer("charge", tables["charge"])
        self.mobility = nn.Parameter(tables["mobility"])

    def forward(self, conc: Tensor, temperature: Tensor):
        return IonConductivity.apply(conc, self.mobility, temperature, self.charge, self.damping)


class Roots(nn.Module):
    """Uptake by one plant, scaled by the number of plants by the caller."""

    def __init__(self, ions: Optional[List[Ion]] = None):
        super().__init__()
        count = len(ions or default_ions())
        self.log_vmax = nn.Parameter(torch.full((count,), math.log(0.4), dtype=torch.float64))
        self.log_km = nn.Parameter(torch.full((count,), math.log(0.8), dtype=torch.float64))
        self.hinder = nn.Parameter(0.02 * torch.ones(count, count, dtype=torch.float64))
        self.q10 = nn.Parameter(torch.tensor(1.9, dtype=torch.float64))

    def forward(self, conc: Tensor, temperature: Tensor, measured: Optional[Tensor] = None) -> Tensor:
        if measured is None:
            measured = torch.ones_like(conc, dtype=torch.bool)
        return CompetingUptake.apply(
            conc, self.log_vmax.exp(), self.log_km.exp(), self.hinder, temperature, self.q10, measured
        )


class Tank(nn.Module):
    def __init__(self, ions: Optional[List[Ion]] = None, litres: float = 80.0, dump_every: int = 24):
        super().__init__()
        ions = ions or default_ions()
        self.feed = nn.Parameter(ion_tables(ions)["target"].clone())
        self.litres = nn.Parameter(torch.tensor(litres, dtype=torch.float64))
        self.dump_every = dump_every
        self.roots = Roots(ions)
        self.probe = Probe(ions)

    def forward(self, plants: Tensor, temperature: Tensor, drunk: Tensor, topup: Tensor):
        """plants (B,), temperature/drunk/topup (T, B)."""
        hours, benches = temperature.shape
        flat = self.feed.expand(hours * benches, -1)
        uptake = self.roots(flat, temperature.reshape(-1)).reshape(hours, benches, -1)
        uptake = uptake * plants[None, :, None]
        conc, litres, drained = ReservoirHours.apply(
            self.feed, self.litres.expand(benches), uptake, drunk, topup, self.dump_every
        )
        reading, _ = self.probe(conc.reshape(hours * benches, -1), temperature.reshape(-1))
        return {
            "conc": conc,
            "litres": litres,
            "drained": drained,
            "reading": reading.reshape(hours, benches),
        }


def drift_penalty(report: Dict[str, Tensor], setpoint: float, waste_price: float = 1e-4) -> Tensor:
    off = (report["reading"] / setpoint - 1.0).square().mean()
    return off + waste_price * report["drained"].sum()


def charge_imbalance(conc: Tensor, charge: Tensor) -> Tensor:
    """Equivalents of cations less anions, zero for a solution that can exist."""
    return (conc * charge.to(conc.dtype)).sum(-1)


if __name__ == "__main__":
    torch.manual_seed(1)
    tank = Tank(dump_every=8)
    day = 2.0 * math.pi * torch.arange(20, dtype=torch.float64) / 24.0
    climate = (21.0 + 3.0 * torch.sin(day))[:, None].expand(-1, 2)
    drink = (0.5 + 0.3 * torch.sin(day))[:, None] * torch.tensor([1.0, 1.4], dtype=torch.float64)
    result = tank(torch.tensor([4.0, 6.0], dtype=torch.float64), climate, drink, 0.5 * drink)
    drift_penalty(result, 2000.0).backward()
    print(result["reading"][-1].tolist(), tank.feed.grad.tolist(), tank.litres.grad.item())
