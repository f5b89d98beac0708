"""Preventive conservation: climate inside display cases and what it costs objects.

A case with a door seal and a buffer cassette follows the room slowly.  Its hourly
climate gives a preservation index for the organic objects inside, its lighting a
fading dose for the dyes.  All three pieces are differentiable so that buffer mass,
seal quality, lamp filters and opening hours can be chosen by gradient descent
against a conservation budget.

Loggers fail and are swapped during the day, hence the interval lengths
and the validity masks.
"""

import math
from dataclasses import dataclass
from typing import Dict, Optional

import torch
from torch import nn

GAS_CONSTANT = 8.314462618
KELVIN = 273.15
REFERENCE_T = 20.0          # degC
REFERENCE_RH = 50.0         # %
HUMIDITY_ORDER = 1.3        # Michalski 2002
ACTIVATION_ENERGY = 1.0e5   # J/mol, cellulose
MOULD_ONSET = 75.0          # % RH
MOULD_GROWTH = 4.0e-3       # extra decay per (% RH above onset)^2

# floor of the effective irradiance, so that dark hours are well behaved (W/m2)
DARK_FLOOR = 1.0e-2


@dataclass
class CaseSpec:
    """What the exhibition designer types in, one per case."""

    name: str
    air_changes: float   # per day
    buffer: float        # apparent case volumes held by the cassette, >= 1
    start_rh: float = REFERENCE_RH


# ------------------------------------------------------------------ humidity ---


class CaseHumidity(torch.autograd.Function):
    """Relative humidity in each case after every logging interval.

    Parameters
    ----------
    start : Tensor, shape (K,)
    room : Tensor, shape (T,) or (K, T)
        One gallery for all the cases, or one series for each.
    air_changes : Tensor, shape (K,)
        Per day.
    buffer : Tensor, shape (K,)
    hours : Tensor, shape (T,)
        Interval lengths; constants.

    Returns
    -------
    Tensor, shape (K, T)
    """

    @staticmethod
    def forward(start, room, air_changes, buffer, hours):
        keep = torch.exp(-hours * (air_changes / (24.0 * buffer))[:, None])
        outside = room.expand(keep.shape)
        level, series = start, []
        for t in range(hours.shape[0]):
            level = outside[:, t] + (level - outside[:, t]) * keep[:, t]
            series.append(level)
        return torch.stack(series, dim=1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad):
        start, room, air_changes, buffer, hours, series = ctx.saved_tensors
        keep = torch.exp(-hours * (air_changes / (24.0 * buffer))[:, None])
        before = torch.cat([start[:, None], series[:, :-1]], dim=1)
        contrast = before - room

        bars = []
        carry = torch.zeros_like(start)
        for t in reversed(range(hours.shape[0])):
            bar = grad[:, t] + carry
            bars.append(bar)
            carry = bar * keep[:, t]
        bars = torch.stack(bars[::-1], dim=1)

        grad_room = (bars * (1.0 - keep)).sum_to_size(room.shape)
        grad_leak = -(bars * contrast * keep * hours).sum(1)   # wrt air_changes / (24 buffer)
        grad_changes = grad_leak / (24.0 * buffer)
        grad_buffer = -grad_leak * air_changes / (24.0 * buffer.square())
        return carry, grad_room, grad_changes, grad_buffer, None


# -------------------------------------------------------------- preservation ---


class PreservationIndex(torch.autograd.Function):
    """Time-weighted lifetime of an object relative to constant 20 degC and 50 %.

    Harmonic mean of the momentary lifetimes over the valid intervals.  Decay goes
    with a power of the humidity and an Arrhenius factor; damp air above the mould
    onset speeds it up further.  A row without valid intervals has index one.

    Args:
        temperature: (K, T) in degC.
        humidity: (K, T) in %, positive.
        energy: (K,) activation energy of each object in J/mol.
        hours: (T,) interval lengths, constants.
        valid: (K, T) bool.
    """

    @staticmethod
    def forward(ctx, temperature, humidity, energy, hours, valid):
        inverse = 1.0 / (temperature + KELVIN) - 1.0 / (REFERENCE_T + KELVIN)
        thermal = torch.exp(-energy[:, None] / GAS_CONSTANT * inverse)
        moist = (humidity / REFERENCE_RH) ** HUMIDITY_ORDER
        damp = torch.relu(humidity - MOULD_ONSET)
        rate = thermal * moist * (1.0 + MOULD_GROWTH * damp.square())
        weight = hours * valid
        span = weight.sum(1)
        wear = (weight * rate).sum(1)
        empty = span == 0
        index = torch.where(empty, torch.ones_like(wear), span / wear.masked_fill(empty, 1.0))
        ctx.save_for_backward(temperature, humidity, energy, inverse, rate, damp,
                              weight, span, wear)
        return index

    @staticmethod
    def backward(ctx, grad):
        (temperature, humidity, energy, inverse, rate, damp,
         weight, span, wear) = ctx.saved_tensors
        empty = span == 0
        per_wear = -grad * span / wear.masked_fill(empty, 1.0).square()
        g_rate = per_wear[:, None] * weight

        kelvin = temperature + KELVIN
        g_temperature = g_rate * rate * energy[:, None] / (GAS_CONSTANT * kelvin.square())
        g_humidity = g_rate * (HUMIDITY_ORDER * rate / humidity + 2.0 * MOULD_GROWTH * damp)
        g_energy = -(g_rate * rate * inverse).sum(1) / GAS_CONSTANT
        return g_temperature, g_humidity, g_energy, None, None


def preservation_index(temperature, humidity, energy=None, hours=None, valid=None):
    """Convenience wrapper filling in cellulose, hourly logging and no gaps."""
    if energy is None:
        energy = temperature.new_full(temperature.shape[:1], ACTIVATION_ENERGY)
    if hours is None:
        hours = temperature.new_ones(temperature.shape[1])
    if valid is None:
        valid = torch.ones_like(temperature, dtype=torch.bool)
    return PreservationIndex.apply(temperature, humidity, energy, hours, valid)


# -------------------------------------------------------------------- fading ---


def damage_weights(wavelength_nm: torch.Tensor, slope: float = 0.0115) -> torch.Tensor:
    """CIE 157 relative damage function, one at 300 nm."""
    return torch.exp(-slope * (wavelength_nm - 300.0))


def make_fading_dose(wavelength_nm: torch.Tensor, slope: float = 0.0115,
                     floor: float = DARK_FLOOR):
    """Build the dose function for one spectrometer grid.

    The returned callable maps ``(irradiance (B, L), transmission (L,), hours (B,),
    exponent ())`` to the doses ``(B,)``: effective irradiance to the Schwarzschild
    exponent, times the hours.
    """
    step = torch.gradient(wavelength_nm)[0]
    weights = damage_weights(wavelength_nm, slope) * step

    class FadingDose(torch.autograd.Function):

        @staticmethod
        def forward(ctx, irradiance, transmission, hours, exponent):
            effective = irradiance @ (weights * transmission) + floor
            gain = effective ** exponent - floor ** exponent
            ctx.save_for_backward(irradiance, transmission, hours, exponent, effective, gain)
            return hours * gain

        @staticmethod
        def backward(ctx, grad):
            irradiance, transmission, hours, exponent, effective, gain = ctx.saved_tensors
            g_gain = grad * hours
            g_effective = g_gain * exponent * effective ** (exponent - 1.0)
            g_irradiance = g_effective[:, None] * (weights * transmission)
            g_transmission = weights * (g_effective @ irradiance)
            log_term = (effective ** exponent * effective.log()
                        - floor ** exponent * math.log(floor))
            g_exponent = (g_gain * log_term).sum()
            return g_irradiance, g_transmission, grad * gain, g_exponent

    return FadingDose.apply


# --------------------------------------------------------------------- model ---


class DisplayRoom(nn.Module):
    """Cases of one gallery with their lamps.

    Trainable: buffer mass and leakage of every case, lamp filter, weekly open hours.
    """

    def __init__(self, cases, wavelength_nm: torch.Tensor, dtype=torch.float64):
        super().__init__()
        count = len(cases)
        self.names = [case.name for case in cases]
        self.log_changes = nn.Parameter(torch.tensor(
            [math.log(case.air_changes) for case in cases], dtype=dtype))
        self.log_buffer = nn.Parameter(torch.tensor(
            [math.log(case.buffer) for case in cases], dtype=dtype))
        self.register_buffer("start", torch.tensor([c.start_rh for c in cases], dtype=dtype))
        self.register_buffer("energy", torch.full((count,), ACTIVATION_ENERGY, dtype=dtype))
        self.filter_logit = nn.Parameter(torch.full((wavelength_nm.shape[0],), 2.0, dtype=dtype))
        self.open_hours = nn.Parameter(torch.full((count,), 54.0, dtype=dtype))
        self.exponent = nn.Parameter(torch.tensor(0.9, dtype=dtype))
        self.dose = make_fading_dose(wavelength_nm)

    def forward(self, room_rh, room_t, hours, irradiance,
                valid: Optional[torch.Tensor] = None) -> Dict[str, torch.Tensor]:
        humidity = CaseHumidity.apply(self.start, room_rh, self.log_changes.exp(),
                                      self.log_buffer.exp(), hours)
        temperature = room_t.expand_as(humidity)
        index = preservation_index(temperature, humidity, self.energy, hours, valid)
        dose = self.dose(irradiance, torch.sigmoid(self.filter_logit),
                         self.open_hours, self.exponent)
        return {"humidity": humidity, "index": index, "dose": dose}


def conservation_cost(state: Dict[str, torch.Tensor], swing_limit: float = 5.0) -> torch.Tensor:
    swing = state["humidity"][:, 1:] - state["humidity"][:, :-1]
    return ((1.0 / state["index"]).mean() + 0.02 * state["dose"].mean()
            + torch.relu(swing.abs() - swing_limit).square().mean())


def monsoon_week(dtype=torch.float64):
    """Room climate in a gallery without air conditioning; RH reaches the nineties."""
    t = torch.arange(0, 168, 3, dtype=dtype)
    rh = 74.0 + 14.0 * torch.sin(2 * math.pi * t / 24.0) + 5.0 * torch.sin(2 * math.pi * t / 91.0)
    temp = 27.0 - 3.0 * torch.sin(2 * math.pi * t / 24.0)
    hours = torch.full_like(t, 3.0)
    return rh, temp, hours


def main() -> None:
    torch.manual_seed(0)
    grid = torch.linspace(380.0, 700.0, 33, dtype=torch.float64)
    cases = [CaseSpec("textiles", 2.0, 6.0), CaseSpec("letters", 0.5, 20.0, 48.0),
             CaseSpec("palm leaves", 5.0, 1.5, 66.0)]
    gallery = DisplayRoom(cases, grid)
    rh, temp, hours = monsoon_week()
    lamp = torch.exp(-((grid - 560.0) / 90.0) ** 2) * torch.tensor([[0.01], [0.006], [0.02]],
                                                                  dtype=torch.float64)
    optimiser = torch.optim.Adam([gallery.log_buffer, gallery.filter_logit], lr=0.05)
    for step in range(30):
        optimiser.zero_grad()
        cost = conservation_cost(gallery(rh, temp, hours, lamp))
        cost.backward()
        optimiser.step()
    for name, value in zip(gallery.names, gallery(rh, temp, hours, lamp)["index"].tolist()):
        print(f"{name:12s} index {value:.3f}")


if __name__ == "__main__":
    main()
