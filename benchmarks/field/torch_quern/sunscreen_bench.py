"""In-vitro sunscreen evaluation from absorbance spectra.

A formulation is spread on roughened plates, the absorbance is scanned at a few
spots per plate from 290 to 400 nm, and the numbers on the bottle follow: the
protection factor (erythema-weighted), the critical wavelength, and, for the
lab's own modelling, the transmission predicted from the filter concentrations
with an irregular film.

Conventions: wavelengths in nm, absorbance is decadic, doses in J/cm2.
"""

import math
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch.autograd import Function

LN10 = math.log(10.0)
UV_START, UV_STOP = 290.0, 400.0


def wavelength_grid(step: float = 5.0, dtype=torch.float64) -> torch.Tensor:
    count = int(round((UV_STOP - UV_START) / step)) + 1
    return torch.linspace(UV_START, UV_STOP, count, dtype=dtype)


def erythema_action(grid: torch.Tensor) -> torch.Tensor:
    """CIE erythema action spectrum on ``grid``."""
    mid = 10.0 ** (0.094 * (298.0 - grid))
    far = 10.0 ** (0.015 * (140.0 - grid))
    out = torch.where(grid <= 298.0, torch.ones_like(grid), mid)
    return torch.where(grid > 328.0, far, out)


def solar_source(grid: torch.Tensor) -> torch.Tensor:
    """Smooth stand-in for the midday mid-latitude source spectrum."""
    edge = torch.sigmoid((grid - 312.0) / 5.0)
    return 1e-3 + edge * (0.4 + 0.6 * (grid - 290.0) / 110.0)


def interpolate_spectrum(points: Tuple[Tuple[float, float], ...], grid: torch.Tensor) -> torch.Tensor:
    xs = torch.tensor([p[0] for p in points], dtype=grid.dtype)
    ys = torch.tensor([p[1] for p in points], dtype=grid.dtype)
    seat = torch.searchsorted(xs, grid, right=True).clamp(1, len(points) - 1)
    w = ((grid - xs[seat - 1]) / (xs[seat] - xs[seat - 1])).clamp(0.0, 1.0)
    return ys[seat - 1] * (1 - w) + ys[seat] * w


@dataclass(frozen=True)
class UvFilter:
    name: str
    decay: float
    points: Tuple[Tuple[float, float], ...]


FILTERS = (
    UvFilter("octocrylene", 0.001, ((290, 3.0), (303, 3.4), (330, 1.5), (360, 0.1), (400, 0.0))),
    UvFilter("avobenzone", 0.030, ((290, 2.0), (320, 5.0), (357, 11.0), (380, 4.0), (400, 0.3))),
    UvFilter("bemotrizinol", 0.001, ((290, 7.0), (310, 7.4), (343, 8.2), (370, 3.0), (400, 0.1))),
    UvFilter("ethylhexyl triazone", 0.002, ((290, 10.0), (314, 15.0), (335, 4.0), (360, 0.1), (400, 0.0))),
)


def filter_tables(grid: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Extinctions (F, W) per per-cent of filter in a 20 um film, decays (F,)."""
    table = torch.stack([interpolate_spectrum(f.points, grid) for f in FILTERS])
    return table * 0.02, torch.tensor([f.decay for f in FILTERS], dtype=grid.dtype)


# ---------------------------------------------------------------- protection


class SpectralSpf(Function):
    """Protection factor per plate and per spot.

    absorbance: (P, S, W), coefficient: (P,) adjustment that multiplies the
    absorbance so the plate meets its label value, weight: (W,) action times
    source, accepted: (P, S) bool, spots that passed the acceptance test.

    Returns (plate, spot): the mean over the accepted spots of a plate (P,) and
    the factor at every spot (P, S).  A plate without any accepted spot is zero.
    """

    @staticmethod
    def forward(ctx, absorbance, coefficient, weight, accepted):
        through = torch.pow(10.0, -absorbance * coefficient[:, None, None])
        burn = (through * weight).sum(-1)
        spot = weight.sum() / burn
        keep = accepted.to(spot.dtype)
        count = keep.sum(-1).clamp(min=1.0)
        plate = (spot * keep).sum(-1) / count
        ctx.save_for_backward(absorbance, coefficient, weight, keep, through, burn, spot)
        return plate, spot

    @staticmethod
    def backward(ctx, g_plate, g_spot):
        absorbance, coefficient, weight, keep, through, burn, spot = ctx.saved_tensors
        share = keep / keep.shape[-1]
        g = g_spot + g_plate[:, None] * share

        g_burn = -g * spot / burn
        g_through = g_burn[..., None] * weight
        g_exponent = g_through * through * -LN10
        g_absorbance = g_exponent * coefficient[:, None, None]
        g_coefficient = (g_exponent * absorbance).sum((1, 2))
        g_weight = (g / burn).sum() + (g_burn[..., None] * through).sum((0, 1))
        return g_absorbance, g_coefficient, g_weight, None


# ------------------------------------------------------- critical wavelength


class CriticalWavelength(Function):
    """Wavelength below which ``level`` of the absorbance area lies.

    The area under ``absorbance`` (B, W) is taken by the trapezium rule on
    ``grid`` (W,) (increasing, uneven steps allowed) and the crossing is placed
    linearly in the area of its interval.  Absorbances are positive.
    """

    @staticmethod
    def forward(ctx, absorbance, grid, level=0.9):
        step = grid[1:] - grid[:-1]
        height = 0.5 * (absorbance[:, 1:] + absorbance[:, :-1])
        area = height * step
        below = area.cumsum(-1)
        goal = level * below[:, -1:]
        seat = (below < goal).sum(-1, keepdim=True).clamp(max=area.shape[-1] - 1)
        here = area.gather(-1, seat)
        part = (goal - below.gather(-1, seat) + here) / here
        ctx.save_for_backward(step, height, seat, here, part)
        ctx.level = level
        return (grid[seat] + part * step[seat]).squeeze(-1)

    @staticmethod
    def backward(ctx, grad):
        step, height, seat, here, part = ctx.saved_tensors
        cells = torch.arange(step.shape[0], device=step.device)
        grad = grad[:, None]
        passed = (cells < seat).to(step.dtype)
        at = (cells == seat).to(step.dtype)

        g_part = grad * step[seat]
        g_area = g_part * (ctx.level - passed - at * part) / here
        g_height = 0.5 * g_area * step
        g_absorbance = nn.functional.pad(g_height, (1, 0)) + nn.functional.pad(g_height, (0, 1))

        g_step = (g_area * height + at * grad * part).sum(0)
        g_grid = nn.functional.pad(g_step, (1, 0)) - nn.functional.pad(g_step, (0, 1))
        g_grid = g_grid + nn.functional.pad((at * grad).sum(0), (0, 1))
        return g_absorbance, g_grid, None


# ------------------------------------------------------------ irregular film


class StepFilmTransmission(Function):
    """Transmission of a two-step film after irradiation.

    A share ``gap`` of the skin carries a film ``thin`` times the mean
    thickness, the rest carries what is left, so that the mean stays one.
    Filters fade exponentially with the dose they have received.

    Parameters
    ----------
    conc : (B, F) filter percentages
    ext : (F, W) decadic extinctions for the mean film
    decay : (F,) fading constants
    dose : (B,)
    gap : (B,) between 0 and 1
    thin : (B,) relative thickness of the thin part; 1 is an even film

    Returns
    -------
    (B, W) transmission
    """

    @staticmethod
    def forward(ctx, conc, ext, decay, dose, gap, thin):
        fade = torch.exp(-dose[:, None] * decay)
        density = (conc * fade) @ ext
        thick = (1.0 - gap * thin) / (1.0 - gap)
        low = torch.pow(10.0, -density * thin[:, None])
        high = torch.pow(10.0, -density * thick[:, None])
        ctx.save_for_backward(conc, ext, decay, dose, gap, thin, fade, density, thick, low, high)
        return gap[:, None] * low + (1.0 - gap)[:, None] * high

    @staticmethod
    def backward(ctx, grad):
        conc, ext, decay, dose, gap, thin, fade, density, thick, low, high = ctx.saved_tensors
        rest = 1.0 - gap
        g_low = grad * gap[:, None] * low * -LN10
        g_high = grad * rest[:, None] * high * -LN10

        g_density = g_low * thin[:, None] + g_high * thick[:, None]
        g_thick = (g_high * density).sum(-1)
        g_thin = (g_low * density).sum(-1) - g_thick * gap / rest
        g_gap = (grad * (low - high)).sum(-1)

        g_left = g_density @ ext.T
        g_ext = (conc * fade).T @ g_density
        g_conc = g_left * fade
        g_log = g_left * conc * fade
        g_decay = -(g_log * dose[:, None]).sum(0)
        g_dose = -(g_log * decay).sum(-1)
        return g_conc, g_ext, g_decay, g_dose, g_gap, g_thin


# -------------------------------------------------------------------- layers


class PlateReader(nn.Module):
    """Turns scans into the numbers of the test report."""

    def __init__(self, plates: int, step: float = 5.0):
        super().__init__()
        grid = wavelength_grid(step)
        self.register_buffer("grid", grid)
        self.register_buffer("weight", erythema_action(grid) * solar_source(grid))
        self.coefficient = nn.Parameter(torch.ones(plates, dtype=grid.dtype))

    def forward(self, scans: torch.Tensor, accepted: Optional[torch.Tensor] = None):
        if accepted is None:
            accepted = torch.ones(scans.shape[:2], dtype=torch.bool, device=scans.device)
        plate, spot = SpectralSpf.apply(scans, self.coefficient, self.weight, accepted)
        critical = CriticalWavelength.apply(scans.mean(1), self.grid)
        return {"spf": plate, "spots": spot, "critical": critical}

    def label_misfit(self, scans, label: float, accepted=None):
        return (self.forward(scans, accepted)["spf"].log() - math.log(label)).square().mean()


class FilmModel(nn.Module):
    def __init__(self, samples: int, step: float = 5.0, even: bool = False):
        super().__init__()
        grid = wavelength_grid(step)
        ext, decay = filter_tables(grid)
        self.register_buffer("ext", ext)
        self.log_decay = nn.Parameter(decay.log())
        self.raw_gap = nn.Parameter(torch.full((samples,), -1.0, dtype=grid.dtype))
        thin = torch.ones(samples, dtype=grid.dtype) if even else torch.full((samples,), 0.3, dtype=grid.dtype)
        self.thin = nn.Parameter(thin, requires_grad=not even)

    def forward(self, conc: torch.Tensor, dose: torch.Tensor) -> torch.Tensor:
        return StepFilmTransmission.apply(
            conc, self.ext, self.log_decay.exp(), dose, self.raw_gap.sigmoid(), self.thin
        )


def absorbance_of(transmission: torch.Tensor, floor: float = 1e-6) -> torch.Tensor:
    return -torch.log10(transmission.clamp(min=floor))


def fit_film(conc, dose, measured, steps: int = 40):
    model = FilmModel(conc.shape[0])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (absorbance_of(model(conc, dose)) - measured).square().mean()
        loss.backward()
        optimiser.step()
    return model


if __name__ == "__main__":
    torch.manual_seed(3)
    film = FilmModel(2)
    percent = torch.tensor([[8.0, 3.0, 2.0, 1.5], [4.0, 2.0, 3.0, 0.0]], dtype=torch.float64)
    spectrum = absorbance_of(film(percent, torch.tensor([0.0, 20.0], dtype=torch.float64)))
    scans = spectrum[:, None, :] * (1.0 + 0.05 * torch.randn(2, 5, 1, dtype=torch.float64))
    reader = PlateReader(2)
    report = reader(scans)
    print({name: value.detach().tolist() for name, value in report.items() if name != "spots"})
    reader.label_misfit(scans.detach(), 30.0).backward()
    print(reader.coefficient.grad)
