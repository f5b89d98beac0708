"""Spur and helical gear rating with gradients for the macro-geometry search.

The optimiser moves profile shifts, tooth counts (relaxed to reals), face width
and stiffness corrections; everything in between has to be differentiable.

Pieces
------
* operating pressure angle of a shifted pair, through the inverse involute;
* Lewis form factor from the handbook table, interpolated in 1/z so that a rack
  (z = infinity) is an ordinary knot of the table;
* quasi-static load sharing among the tooth pairs in mesh, some of which may be
  held apart by tip relief or pitch error.
"""

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn
from torch.autograd import Function

NEWTON_STEPS = 30
ANGLE_CEILING = 1.5

# virtual tooth counts of the table's columns; the last one is the rack
TABLE_TEETH = (12.0, 14.0, 17.0, 20.0, 25.0, 35.0, 60.0, 150.0, math.inf)
PRESSURE_SERIES = {"14.5 full depth": 0, "20 full depth": 1, "20 stub": 2}
LEWIS_TABLE = (
    (0.210, 0.236, 0.264, 0.283, 0.305, 0.327, 0.355, 0.375, 0.390),
    (0.245, 0.277, 0.303, 0.322, 0.340, 0.373, 0.422, 0.460, 0.484),
    (0.311, 0.340, 0.368, 0.385, 0.402, 0.433, 0.476, 0.513, 0.550),
)


class GearPair(NamedTuple):
    teeth_pinion: Tensor
    teeth_wheel: Tensor
    shift_pinion: Tensor
    shift_wheel: Tensor
    helix: Tensor  # rad
    series: Tensor  # long


def involute(angle: Tensor) -> Tensor:
    return torch.tan(angle) - angle


def virtual_teeth(teeth: Tensor, helix: Tensor) -> Tensor:
    """Tooth count of the equivalent spur gear."""
    return teeth / torch.cos(helix) ** 3


class InvoluteAngle(Function):
    """Angle whose involute is the (positive) input, any shape."""

    @staticmethod
    def forward(ctx, value):
        # tan(a) - a >= a^3/3, so the cube root starts above the solution and
        # the convex Newton iteration comes down monotonically
        angle = (3.0 * value).pow(1.0 / 3.0).clamp(max=ANGLE_CEILING)
        for _ in range(NEWTON_STEPS):
            t = torch.tan(angle)
            angle = angle - (t - angle - value) / (t * t)
        ctx.save_for_backward(angle)
        return angle

    @staticmethod
    def backward(ctx, grad):
        (angle,) = ctx.saved_tensors
        return grad / torch.tan(angle) ** 2


class LewisFormFactor(Function):
    """Form factor read from a table of (series, virtual teeth).

    teeth  : [n] virtual tooth counts, real valued
    series : [n] long, row of the table
    table  : [series, knots]
    inverse_teeth : [knots] reciprocals of the column heads, decreasing to 0

    Below the smallest tooth count of the table the first column is held.
    """

    @staticmethod
    def forward(teeth, series, table, inverse_teeth):
        left, frac, _ = LewisFormFactor._bracket(teeth, inverse_teeth)
        lo, hi = table[series, left], table[series, left + 1]
        return lo + frac * (hi - lo)

    @staticmethod
    def _bracket(teeth, inverse_teeth):
        u = (1.0 / teeth).clamp(max=inverse_teeth[0].item(), min=0.0)
        left = torch.searchsorted(-inverse_teeth, -u, right=True) - 1
        left = left.clamp(0, inverse_teeth.numel() - 2)
        width = inverse_teeth[left + 1] - inverse_teeth[left]
        return left, (u - inverse_teeth[left]) / width, width

    @staticmethod
    def setup_context(ctx, inputs, output):
        teeth, series, table, inverse_teeth = inputs
        ctx.save_for_backward(teeth, series, table, inverse_teeth)

    @staticmethod
    def backward(ctx, grad):
        teeth, series, table, inverse_teeth = ctx.saved_tensors
        left, frac, width = LewisFormFactor._bracket(teeth, inverse_teeth)
        g_teeth = g_table = None
        if ctx.needs_input_grad[0]:
            slope = (table[series, left + 1] - table[series, left]) / width
            inside = (1.0 / teeth) < inverse_teeth[0]
            g_teeth = torch.where(inside, -grad * slope / teeth**2, torch.zeros_like(grad))
        if ctx.needs_input_grad[2]:
            g_table = torch.zeros_like(table)
            g_table.index_put_((series, left), grad * (1.0 - frac), accumulate=True)
            g_table.index_put_((series, left + 1), grad * frac, accumulate=True)
        return g_teeth, None, g_table, None


class ContactLoadShare(Function):
    """Split the mesh load over tooth pairs acting as unilateral springs.

    Pair ``i`` carries ``stiffness_i * max(deflection - gap_i, 0)``; the common
    deflection is the one at which the pairs together carry ``load``.

    Parameters
    ----------
    stiffness : Tensor ``(positions, pairs)``, positive
    gap : Tensor ``(positions, pairs)``
        Separation at no load, from relief and pitch errors.
    load : Tensor ``(positions,)``, positive

    Returns
    -------
    forces : Tensor ``(positions, pairs)``
    deflection : Tensor ``(positions,)``
        Loaded transmission error along the line of action.
    touching : BoolTensor ``(positions, pairs)``, not differentiable
    """

    @staticmethod
    def forward(ctx, stiffness, gap, load):
        ordered, order = gap.sort(dim=1)
        k = stiffness.gather(1, order)
        closed = (load[:, None] + (k * ordered).cumsum(1)) / k.cumsum(1)
        count = (closed > ordered).sum(1, keepdim=True).clamp(min=1)
        deflection = closed.gather(1, count - 1)
        touching = gap < deflection
        forces = torch.where(
            touching, stiffness * (deflection - gap), torch.zeros_like(gap)
        )
        ctx.save_for_backward(stiffness, gap, deflection, touching)
        ctx.mark_non_differentiable(touching)
        return forces, deflection[:, 0], touching

    @staticmethod
    def backward(ctx, g_forces, g_deflection, _):
        stiffness, gap, deflection, touching = ctx.saved_tensors
        pressed = torch.where(touching, g_forces, torch.zeros_like(g_forces))
        total = stiffness.sum(1)
        shift = (g_deflection + (pressed * stiffness).sum(1)) / total
        relative = (pressed - shift[:, None]) * touching
        g_stiffness = relative * (deflection - gap)
        g_gap = -relative * stiffness
        return g_stiffness, g_gap, shift


class FormFactorTable(nn.Module):
    """Handbook table; ``trainable`` lets it be refitted to FE results."""

    def __init__(self, trainable: bool = False):
        super().__init__()
        table = torch.tensor(LEWIS_TABLE)
        self.table = nn.Parameter(table, requires_grad=trainable)
        self.register_buffer(
            "inverse_teeth", torch.tensor([1.0 / z for z in TABLE_TEETH])
        )

    def forward(self, teeth: Tensor, series: Tensor) -> Tensor:
        return LewisFormFactor.apply(teeth, series, self.table, self.inverse_teeth)


class OperatingAngle(nn.Module):
    def __init__(self, nominal_deg: float = 20.0):
        super().__init__()
        self.nominal = math.radians(nominal_deg)

    def forward(self, pair: GearPair) -> Tensor:
        shift = pair.shift_pinion + pair.shift_wheel
        teeth = pair.teeth_pinion + pair.teeth_wheel
        base = math.tan(self.nominal) - self.nominal
        return InvoluteAngle.apply(base + 2.0 * shift / teeth * math.tan(self.nominal))

    def centre_distance(self, pair: GearPair, module: float) -> Tensor:
        reference = 0.5 * module * (pair.teeth_pinion + pair.teeth_wheel)
        return reference * math.cos(self.nominal) / torch.cos(self(pair))


class MeshModel(nn.Module):
    """Stiffness curves of the pairs over a mesh cycle plus tip relief.

    The single-pair stiffness is a parabola with its top at the pitch point; a
    pair ``j`` base pitches ahead is sampled at ``phase + j``.
    """

    def __init__(self, positions: int = 16, pairs: int = 3, contact_ratio: float = 1.7):
        super().__init__()
        phase = torch.linspace(0.0, 1.0, positions + 1)[:-1]
        offset = torch.arange(pairs) - (pairs - 1) / 2
        self.register_buffer("along", (phase[:, None] - 0.5 + offset) / contact_ratio)
        self.log_peak = nn.Parameter(torch.tensor(math.log(14.0)))
        self.curvature = nn.Parameter(torch.tensor(0.55))
        self.relief = nn.Parameter(torch.tensor(0.012))

    def forward(self, load: Tensor, pitch_error: Optional[Tensor] = None):
        reach = (2.0 * self.along).abs()
        stiffness = self.log_peak.exp() * (1.0 - self.curvature * reach.clamp(max=1.2) ** 2)
        stiffness = stiffness.clamp(min=0.5)
        gap = self.relief * torch.relu(reach - 0.6) / 0.4 + 10.0 * torch.relu(reach - 1.0)
        if pitch_error is not None:
            gap = gap + pitch_error
        load = load.expand(self.along.shape[0])
        return ContactLoadShare.apply(stiffness, gap, load)

    def ripple(self, load: Tensor) -> Tensor:
        """Peak-to-peak loaded transmission error."""
        _, deflection, _ = self(load)
        return deflection.amax() - deflection.amin()


def root_stress(forces, form_factor, face_width, module):
    """Lewis root stress of the most loaded pair."""
    return forces.amax() / (face_width * module * form_factor)


if __name__ == "__main__":
    torch.manual_seed(1)
    pair = GearPair(
        torch.tensor([19.0, 23.0]), torch.tensor([60.0, 71.0]),
        torch.tensor([0.3, 0.1], requires_grad=True), torch.tensor([0.2, 0.0]),
        torch.tensor([0.0, 0.26]), torch.tensor([1, 1]),
    )
    angle = OperatingAngle()
    form = FormFactorTable(trainable=True)
    mesh = MeshModel()
    print("centre distance", angle.centre_distance(pair, module=2.0))
    y = form(virtual_teeth(pair.teeth_pinion, pair.helix), pair.series)
    forces, deflection, touching = mesh(torch.tensor(0.25))
    (root_stress(forces, y.mean(), 20.0, 2.0) + mesh.ripple(torch.tensor(0.25))).backward()
    print("relief gradient", mesh.relief.grad, "pairs touching", touching.sum(1))
