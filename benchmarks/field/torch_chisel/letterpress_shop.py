"""Make-ready estimates for a hand-fed cylinder press.

Before a run the press-room wants to know how much ink the forme will take, how
the film on the rollers settles after the ductor is changed, and how the
impression is spread over the sorts.  The models are small, but the parameters
(roller carry, spread of the ink, stiffness of the packing) are only known from
trial pulls, hence the gradients.

Units: lengths in thousandths of an inch ("thou"), film in grams per square
metre, pressure in arbitrary gauge units.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TYPE_HEIGHT_THOU = 918.0
EMPTY_SORT = -1

#: sorts of the job case, in the order of the area table
JOB_CASE: Dict[str, int] = {c: k for k, c in enumerate("abcdefghijklmnopqrstuvwxyz.,-' ")}


class Packing(NamedTuple):
    """Packing of the cylinder: exponent of its springiness, and the depth (thou)
    beyond which the press-board is crushed flat and the pressure goes on along
    the tangent."""

    power: float = 1.6
    knee: float = 6.0


HARD_PACKING = Packing(power=1.3, knee=3.0)
SOFT_PACKING = Packing(power=2.1, knee=9.0)


def compose(lines: List[str], width: Optional[int] = None) -> Tensor:
    """Set lines of text into sort numbers, short lines filled with EMPTY_SORT."""
    width = width or max(len(line) for line in lines)
    forme = torch.full((len(lines), width), EMPTY_SORT, dtype=torch.long)
    for row, line in enumerate(lines):
        for column, letter in enumerate(line.lower()[:width]):
            forme[row, column] = JOB_CASE.get(letter, JOB_CASE[" "])
    return forme


class RollerFilm(Function):
    """Film on a roller train as it follows the feed of the ductor.

    film[t] = carry * film[t-1] + (1 - carry) * feed[t]

    Args:
        feed: any shape with a time axis ``dim``; the last of the other axes is
            the lane across the roller.
        carry: (lanes,) fraction left on the rollers at each revolution.
        start: film before the first revolution, shaped as ``feed`` without its
            time axis, or ``None`` for rollers fresh from washing-up.
        dim: the time axis.

    Returns the film after each revolution, shaped as ``feed``.
    """

    @staticmethod
    def forward(ctx, feed, carry, start, dim):
        series = feed.movedim(dim, 0)
        film = torch.empty_like(series)
        level = torch.zeros_like(series[0]) if start is None else start
        for t in range(series.shape[0]):
            level = carry * level + (1.0 - carry) * series[t]
            film[t] = level
        ctx.save_for_backward(series, carry, film)
        ctx.dim = dim
        return film.movedim(0, dim).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        series, carry, film = ctx.saved_tensors
        grad = grad_out.movedim(ctx.dim, 0)
        adjoint = torch.empty_like(series)
        running = torch.zeros_like(series[0])
        for t in range(series.shape[0] - 1, -1, -1):
            running = grad[t] + carry * running
            adjoint[t] = running

        grad_feed = grad_carry = grad_start = None
        if ctx.needs_input_grad[0]:
            grad_feed = ((1.0 - carry) * adjoint).movedim(0, ctx.dim)
        if ctx.needs_input_grad[1]:
            previous = torch.cat([torch.zeros_like(film[:1]), film[:-1]])
            local = adjoint * (previous - series)
            grad_carry = local.reshape(-1, carry.shape[0]).sum(0)
        if ctx.needs_input_grad[2]:
            grad_start = carry * adjoint[0]
        return grad_feed, grad_carry, grad_start, None


def _count_sorts(forme: Tensor, kinds: int, dtype: torch.dtype) -> Tensor:
    """(lines, kinds) table of how often each sort stands in each line."""
    real = forme != EMPTY_SORT
    counts = torch.zeros(forme.shape[0], kinds, dtype=dtype, device=forme.device)
    return counts.scatter_add_(1, forme.clamp_min(0), real.to(dtype))


class FormeInkTake(Function):
    """Ink taken by each line of the forme and by each kind of sort.

    The face of a sort prints with area ``a``; ink squeezes out around it and
    covers ``s = a + 4 * spread * a * (1 - a)``.

    forme: (lines, width) integer sorts, EMPTY_SORT where the line is short
    area: (kinds,) in 0..1; load: (lines,) film on the forme; spread: scalar
    returns (per_line (lines,), per_kind (kinds,))
    """

    @staticmethod
    def forward(ctx, forme, area, load, spread):
        counts = _count_sorts(forme, area.shape[0], area.dtype)
        covered = area + 4.0 * spread * area * (1.0 - area)
        per_line = load * (counts @ covered)
        per_kind = (load @ counts) * covered
        ctx.save_for_backward(counts, area, load, spread)
        return per_line, per_kind

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_line, grad_kind):
        counts, area, load, spread = ctx.saved_tensors
        covered = area + 4.0 * spread * area * (1.0 - area)
        grad_covered = (grad_line * load) @ counts + grad_kind * (load @ counts)
        grad_area = grad_load = grad_spread = None
        if ctx.needs_input_grad[1]:
            grad_area = grad_covered * (1.0 + 4.0 * spread * (1.0 - 2.0 * area))
        if ctx.needs_input_grad[2]:
            grad_load = grad_line * (counts @ covered) + counts @ (grad_kind * covered)
        if ctx.needs_input_grad[3]:
            grad_spread = (grad_covered * 4.0 * area * (1.0 - area)).sum()
            grad_spread = grad_spread.reshape(spread.shape)
        return None, grad_area, grad_load, grad_spread


def _packing_curve(depth: Tensor, power: float, knee: float):
    """Unit-stiffness pressure at ``depth`` and its slope."""
    bite = depth.clamp(min=0.0, max=knee)
    beyond = (depth - knee).clamp_min(0.0)
    slope = power * bite.pow(power - 1.0)
    slope = torch.where(depth > 0, slope, torch.zeros_like(slope))
    return bite.pow(power) + slope * beyond, slope


class ImpressionSpread(Function):
    """Pressure of the packing on each sort.

    Parameters
    ----------
    depth : (B, F)
        Overlap of packing and type, negative where the sort stays clear.
    stiffness : (F,)
        Stiffness of the packing over each sort (patched tympan).
    face : (F,)
        Printing area of each sort.
    power, knee : float
        See `Packing`.

    Returns
    -------
    pressure : (B, F)
    load : (B,)
        Pressure times face, summed: what the cylinder bearers must carry.
    """

    @staticmethod
    def forward(depth, stiffness, face, power, knee):
        unit, _ = _packing_curve(depth, power, knee)
        pressure = stiffness * unit
        return pressure, pressure @ face

    @staticmethod
    def setup_context(ctx, inputs, output):
        depth, stiffness, face, power, knee = inputs
        pressure, _ = output
        ctx.save_for_backward(depth, stiffness, face, pressure)
        ctx.power, ctx.knee = power, knee

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_pressure, grad_load):
        depth, stiffness, face, pressure = ctx.saved_tensors
        _, slope = _packing_curve(depth, ctx.power, ctx.knee)
        total = grad_pressure + grad_load[:, None] * face
        grad_depth = total * stiffness * slope
        grad_stiffness = (total * depth.clamp_min(0.0).pow(ctx.power)).sum(0)
        grad_face = grad_load @ pressure
        return grad_depth, grad_stiffness, grad_face, None, None


def impression(depth, stiffness, face, packing: Packing = Packing()):
    return ImpressionSpread.apply(depth, stiffness, face, packing.power, packing.knee)


class MakeReady(nn.Module):
    """All of the press in one module, fitted to trial pulls."""

    def __init__(self, lanes: int, packing: Packing = Packing(), dtype=torch.float64):
        super().__init__()
        kinds = len(JOB_CASE)
        self.packing = packing
        self.carry_logit = nn.Parameter(torch.full((lanes,), 1.1, dtype=dtype))
        self.area_logit = nn.Parameter(torch.full((kinds,), -1.2, dtype=dtype))
        self.spread = nn.Parameter(torch.tensor(0.15, dtype=dtype))
        self.log_stiffness = nn.Parameter(torch.zeros(lanes, dtype=dtype))

    def film(self, feed: Tensor, start: Optional[Tensor] = None) -> Tensor:
        """feed (B, T, lanes)."""
        return RollerFilm.apply(feed, torch.sigmoid(self.carry_logit), start, 1)

    def ink(self, forme: Tensor, load: Tensor):
        return FormeInkTake.apply(forme, torch.sigmoid(self.area_logit), load, self.spread)

    def forward(self, feed: Tensor, forme: Tensor, overlay: Tensor) -> Dict[str, Tensor]:
        film = self.film(feed)
        load = film[:, -1].mean(0)[: forme.shape[0]]
        per_line, per_kind = self.ink(forme, load)
        face = torch.sigmoid(self.area_logit)[: overlay.shape[1]]
        pressure, bearers = impression(
            overlay, self.log_stiffness.exp()[: overlay.shape[1]], face, self.packing
        )
        return {
            "film": film,
            "per_line": per_line,
            "per_kind": per_kind,
            "pressure": pressure,
            "bearers": bearers,
        }


def trial_pull_loss(press: MakeReady, pull: Dict[str, Tensor]) -> Tensor:
    """Densitometer and gauge misfit of one pull."""
    state = press(pull["feed"], pull["forme"], pull["overlay"])
    ink = (state["per_line"] - pull["density"]).square().mean()
    gauge = (state["bearers"] - pull["gauge"]).square().mean()
    return ink + 0.1 * gauge


if __name__ == "__main__":
    torch.manual_seed(0)
    press = MakeReady(lanes=4)
    text = compose(["sphinx of black", "quartz,", "judge my vow."])
    example = {
        "feed": torch.rand(2, 7, 4, dtype=torch.float64),
        "forme": text,
        "overlay": torch.rand(5, 4, dtype=torch.float64) * 5.0 - 1.0,
        "density": torch.rand(3, dtype=torch.float64),
        "gauge": torch.rand(5, dtype=torch.float64) * 10.0,
    }
    value = trial_pull_loss(press, example)
    value.backward()
    print(value.item())
    for label, weight in press.named_parameters():
        print(label, float(weight.grad.norm()))
