"""Lichenometry: dating moraines, rockfalls and walls by the size of lichens.

The largest thalli of *Rhizocarpon geographicum* on a stable rock surface grow
with the time since its exposure.  A calibration is fitted on surfaces of known
age (gravestones, dated moraines), then inverted for the undated ones.  Field
practice measures a few dozen of the largest thalli per surface and works with
the mean of the five largest, or fits an extreme-value law to the maxima of
boulders.

The module has

* :class:`ThallusDiameter`, the growth curve (colonisation lag, great-growth
  phase, linear phase) by site,
* :class:`LargestThalliMean`, the mean of the ``k`` largest per surface from
  padded measurement tables,
* :class:`GumbelSurfaceLogLik`, log likelihood of boulder maxima per surface,

and the layers :class:`GrowthCurve`, :class:`FiveLargest`,
:class:`SurfaceDating` using them.  Diameters in millimetres, ages in years.
"""

import math
from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULT_LARGEST = 5
EULER_GAMMA = 0.5772156649015329

# (linear rate mm/yr, great-growth amplitude mm, great-growth time yr, lag yr)
REGIONAL_CURVES: Dict[str, Tuple[float, float, float, float]] = {
    "jostedalsbreen": (0.43, 14.0, 35.0, 12.0),
    "swiss_alps": (0.27, 11.0, 28.0, 18.0),
    "front_range": (0.11, 9.0, 60.0, 25.0),
    "southern_alps": (0.49, 17.0, 24.0, 7.0),
}


@dataclass
class SurfaceSheet:
    """Measurements of one surface as noted in the field book."""

    name: str
    diameters: List[float]
    known_age: float = math.nan


def pad_sheets(sheets: List[SurfaceSheet], dtype=torch.float32):
    """Stack the sheets.

    Returns
    -------
    table : (surfaces, widest) float
        Diameters, rows padded with zeros at the end.
    counts : (surfaces,) int64
    ages : (surfaces,) float, nan where unknown
    """
    widest = max(1, max(len(s.diameters) for s in sheets))
    table = torch.zeros(len(sheets), widest, dtype=dtype)
    for row, sheet in enumerate(sheets):
        if sheet.diameters:
            table[row, : len(sheet.diameters)] = torch.tensor(sheet.diameters, dtype=dtype)
    counts = torch.tensor([len(s.diameters) for s in sheets])
    ages = torch.tensor([s.known_age for s in sheets], dtype=dtype)
    return table, counts, ages


class ThallusDiameter(torch.autograd.Function):
    """Expected diameter of the largest thallus at a given age.

    After the colonisation lag a fast phase saturates with time constant
    ``tau`` on top of a linear increase::

        u = age - lag
        d = rate * u + amp * (1 - exp(-u / tau))        (u > 0)
        d = 0                                           (u <= 0)

    ``age`` is (sites, n); the four curve constants are (sites,).
    """

    @staticmethod
    def forward(age, rate, amp, tau, lag):
        u = (age - lag[:, None]).clamp(min=0.0)
        return rate[:, None] * u - amp[:, None] * torch.expm1(-u / tau[:, None])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_d):
        age, rate, amp, tau, lag = ctx.saved_tensors
        raw = age - lag[:, None]
        u = raw.clamp(min=0.0)
        live = (raw > 0).to(grad_d.dtype)
        decay = torch.exp(-u / tau[:, None])
        per_year = grad_d * live * (rate[:, None] + amp[:, None] / tau[:, None] * decay)
        grad_rate = (grad_d * u).sum(1)
        grad_amp = (grad_d * (1.0 - decay)).sum(1)
        grad_tau = -(grad_d * u * decay).sum(1) * amp / tau**2
        return per_year, grad_rate, grad_amp, grad_tau, -per_year.sum(1)


class LargestThalliMean(torch.autograd.Function):
    """Mean of the ``k`` largest diameters along ``axis``.

    Parameters
    ----------
    table : Tensor
        Diameters, padded at the end of ``axis``.
    counts : LongTensor
        Number of measured thalli; the shape of ``table`` without ``axis``.
        Surfaces with fewer than ``k`` thalli are averaged over those they
        have, and surfaces with none give zero.
    k, axis : int
    """

    @staticmethod
    def forward(ctx, table, counts, k=DEFAULT_LARGEST, axis=-1):
        axis = axis % table.dim()
        moved = table.movedim(axis, -1)
        width = moved.shape[-1]
        slots = torch.arange(width, device=table.device)
        measured = slots < counts.unsqueeze(-1)
        top, where = moved.masked_fill(~measured, -math.inf).topk(min(k, width), dim=-1)
        taken = torch.isfinite(top)
        number = counts.clamp(min=1, max=k).to(table.dtype)
        mean = top.masked_fill(~taken, 0.0).sum(-1) / number

        ctx.save_for_backward(where, taken)
        ctx.k, ctx.axis, ctx.moved_shape = k, axis, moved.shape
        return mean

    @staticmethod
    def backward(ctx, grad_mean):
        where, taken = ctx.saved_tensors
        each = (grad_mean / ctx.k).unsqueeze(-1) * taken.to(grad_mean.dtype)
        grad = grad_mean.new_zeros(ctx.moved_shape).scatter(-1, where, each)
        return grad.movedim(-1, ctx.axis), None, None, None


class GumbelSurfaceLogLik(torch.autograd.Function):
    # maxima (S, N), loc (S,), scale (S,), valid (S, N) bool  ->  (S,)
    @staticmethod
    def forward(ctx, maxima, loc, scale, valid):
        z = (maxima - loc[:, None]) / scale[:, None]
        z = z.masked_fill(~valid, 0.0)
        tail = torch.exp(-z)
        logp = -torch.log(scale)[:, None] - z - tail
        ctx.save_for_backward(maxima, loc, scale, valid)
        return logp.masked_fill(~valid, 0.0).sum(1)

    @staticmethod
    def backward(ctx, grad):
        maxima, loc, scale, valid = ctx.saved_tensors
        z = ((maxima - loc[:, None]) / scale[:, None]).masked_fill(~valid, 0.0)
        pull = torch.exp(-z) - 1.0
        pull = pull.masked_fill(~valid, 0.0)
        seen = valid.to(grad.dtype).sum(1)
        grad_maxima = grad[:, None] * pull / scale[:, None]
        grad_loc = -grad_maxima.sum(1)
        grad_scale = -grad * (seen + (z * pull).sum(1)) / scale
        return grad_maxima, grad_loc, grad_scale, None


def gumbel_mean(loc, scale):
    """Mean of the Gumbel law of maxima."""
    return loc + EULER_GAMMA * scale


class GrowthCurve(nn.Module):
    """Regional growth curves, in log parameters so they stay positive."""

    def __init__(self, regions: Tuple[str, ...]):
        super().__init__()
        start = torch.tensor([REGIONAL_CURVES[r] for r in regions])
        self.log_rate = nn.Parameter(start[:, 0].log())
        self.log_amp = nn.Parameter(start[:, 1].log())
        self.log_tau = nn.Parameter(start[:, 2].log())
        self.lag = nn.Parameter(start[:, 3].clone())

    def forward(self, age: torch.Tensor) -> torch.Tensor:
        return ThallusDiameter.apply(
            age, self.log_rate.exp(), self.log_amp.exp(), self.log_tau.exp(), self.lag
        )

    @torch.no_grad()
    def invert(self, diameter: torch.Tensor, oldest: float = 4000.0, rounds: int = 60) -> torch.Tensor:
        """Bisect the curve for ages; diameters are (sites, n)."""
        low = torch.zeros_like(diameter)
        high = torch.full_like(diameter, oldest)
        for _ in range(rounds):
            mid = 0.5 * (low + high)
            short = self(mid) < diameter
            low, high = torch.where(short, mid, low), torch.where(short, high, mid)
        return 0.5 * (low + high)


class FiveLargest(nn.Module):
    """Mean of the largest thalli, scaled by a caliper-to-true factor."""

    def __init__(self, k: int = DEFAULT_LARGEST, axis: int = -1):
        super().__init__()
        self.k = k
        self.axis = axis
        self.caliper = nn.Parameter(torch.tensor(1.0))

    def forward(self, table, counts):
        return LargestThalliMean.apply(self.caliper * table, counts, self.k, self.axis)

    def extra_repr(self):
        return f"k={self.k}, axis={self.axis}"


class SurfaceDating(nn.Module):
    """Joint fit of exposure ages and of the growth curve of one region.

    Boulder maxima are Gumbel around the curve; undated surfaces have a free
    log age each.
    """

    def __init__(self, region: str, surfaces: int, guess: float = 150.0):
        super().__init__()
        self.curve = GrowthCurve((region,))
        self.log_age = nn.Parameter(torch.full((surfaces,), math.log(guess)))
        self.spread = nn.Parameter(torch.full((surfaces,), 1.0))

    def ages(self):
        return self.log_age.exp()

    def forward(self, maxima, valid, known_age):
        dated = ~torch.isnan(known_age)
        age = torch.where(dated, torch.nan_to_num(known_age), self.ages())
        centre = self.curve(age[None, :])[0]
        scale = F.softplus(self.spread) + 0.5
        loc = centre - EULER_GAMMA * scale
        return -GumbelSurfaceLogLik.apply(maxima, loc, scale, valid).sum()


def calibrate(model: SurfaceDating, maxima, valid, known_age, steps=20, lr=2e-2):
    """Run a few Adam steps and return the loss history."""
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    history = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = model(maxima, valid, known_age)
        loss.backward()
        optimiser.step()
        history.append(loss.item())
    return history


if __name__ == "__main__":
    torch.manual_seed(0)
    book = [
        SurfaceSheet("churchyard wall", [31.0, 28.5, 33.2, 30.1, 27.7, 29.9, 32.0], 60.0),
        SurfaceSheet("1850 moraine", [71.0, 66.4, 80.2, 75.1, 69.9, 73.3], 172.0),
        SurfaceSheet("rockfall B", [44.0, 47.5, 41.2]),
    ]
    sizes, n, known = pad_sheets(book)
    largest = FiveLargest()
    print("means", largest(sizes, n).tolist())
    present = torch.arange(sizes.shape[1]) < n[:, None]
    dating = SurfaceDating("jostedalsbreen", len(book))
    print("loss", calibrate(dating, sizes, present, known)[::5])
    print("ages", dating.ages().tolist())
