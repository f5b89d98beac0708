"""Origami mechanics: flat-foldability, Miura tessellations, crease springs.

Used by the inverse-design scripts, which move the vertices of a crease pattern
and the rest angles of its creases so that the sheet folds flat, deploys to a
wanted envelope and does so at low energy.

Angles are radians.  A crease's fold is measured by its dihedral angle: pi is a
flat sheet, towards 0 it is a closed valley, towards 2 pi a closed mountain.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TWO_PI = 2.0 * math.pi
CONTACT_LOW = math.pi / 4        # dihedral below which facets begin to touch
CONTACT_HIGH = TWO_PI - CONTACT_LOW


class CreaseGraph(NamedTuple):
    """Interior vertices of a pattern and the creases that leave them.

    centre: (vertices,) long, index into the coordinates.
    ring:   (vertices, max_degree) long, the other end of every crease in
            counter-clockwise order, filled up with -1.
    """

    centre: Tensor
    ring: Tensor

    @property
    def degree(self) -> Tensor:
        return (self.ring >= 0).sum(dim=1)


class MiuraEnvelope(NamedTuple):
    height: Tensor
    width: Tensor
    length: Tensor
    area: Tensor


def crease_graph(coords: Tensor, edges: Sequence[tuple], interior: Sequence[int]) -> CreaseGraph:
    """Sort the creases around every interior vertex and pad the table."""
    rings = []
    for v in interior:
        ends = [b if a == v else a for a, b in edges if v in (a, b)]
        offsets = coords[ends] - coords[v]
        angle = torch.atan2(offsets[:, 1], offsets[:, 0])
        rings.append([ends[i] for i in angle.argsort().tolist()])
    width = max(len(r) for r in rings)
    table = torch.tensor([r + [-1] * (width - len(r)) for r in rings])
    return CreaseGraph(torch.tensor(list(interior)), table)


def _alternating(k: int, like: Tensor) -> Tensor:
    signs = torch.ones(k, dtype=like.dtype, device=like.device)
    signs[1::2] = -1.0
    return signs


class KawasakiResidual(Function):
    """Alternating sum of the sector angles around every interior vertex.

    A vertex of even degree folds flat when this sum vanishes.

    coords (points, 2), centre (vertices,), ring (vertices, max_degree) -> (vertices,)
    """

    @staticmethod
    def forward(ctx, coords, centre, ring):
        real = ring >= 0
        ends = ring.clamp_min(0)
        offset = coords[ends] - coords[centre][:, None, :]
        theta = torch.atan2(offset[..., 1], offset[..., 0])

        k = torch.arange(ring.shape[1], device=ring.device)
        degree = real.sum(dim=1, keepdim=True)
        following = (k[None, :] + 1) % degree.clamp_min(1)
        following = torch.where(real, following, k.expand_as(ring))

        sector = torch.remainder(theta.gather(1, following) - theta, TWO_PI)
        signed = _alternating(ring.shape[1], coords) * real
        ctx.save_for_backward(offset, signed, following, ends, centre, real)
        ctx.points = coords.shape[0]
        return (signed * sector).sum(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        offset, signed, following, ends, centre, real = ctx.saved_tensors
        g_sector = grad[:, None] * signed
        g_theta = torch.zeros_like(g_sector).scatter_add_(1, following, g_sector) - g_sector

        square = offset.square().sum(-1)
        square = torch.where(real, square, torch.ones_like(square))
        turn = torch.stack([-offset[..., 1], offset[..., 0]], dim=-1)
        g_offset = (g_theta / square)[..., None] * turn
        g_offset = g_offset * real[..., None]

        g_coords = grad.new_zeros(ctx.points, 2)
        g_coords.index_add_(0, ends.reshape(-1), g_offset.reshape(-1, 2))
        g_coords.index_add_(0, centre, -g_offset.sum(dim=1))
        return g_coords, None, None


class MiuraSheet(Function):
    """Outer dimensions of a partly folded Miura-ori sheet.

    Parameters
    ----------
    fold : Tensor, shape (n,)
        Angle between the facets and the base plane, 0 (flat) to pi/2.
    sector : Tensor, shape (n,)
        Acute angle of the parallelogram facets.
    a, b : Tensor, shape (n,)
        Sides of the facets.
    rows, cols : int
        Number of unit cells.

    Returns
    -------
    height, width, length, area : Tensor, shape (n,)
        ``length`` includes the overhang of the zigzag at the rim, and ``area``
        is that of the rectangle around the sheet.
    """

    @staticmethod
    def forward(ctx, fold, sector, a, b, rows=1, cols=1):
        sf, cf = torch.sin(fold), torch.cos(fold)
        sg, tg = torch.sin(sector), torch.tan(sector)
        q = torch.sqrt(1.0 + (cf * tg).square())
        p = torch.sqrt(1.0 - (sf * sg).square())

        height = a * sf * sg
        half_width = b * cf * tg / q
        half_length = a * p
        overhang = b / q

        width = 2 * cols * half_width
        length = 2 * rows * half_length + overhang
        ctx.save_for_backward(fold, sector, a, b, width, length)
        ctx.rows, ctx.cols = rows, cols
        return height, width, length, width * length

    @staticmethod
    def backward(ctx, g_height, g_width, g_length, g_area):
        fold, sector, a, b, width, length = ctx.saved_tensors
        sf, cf = torch.sin(fold), torch.cos(fold)
        sg, cg, tg = torch.sin(sector), torch.cos(sector), torch.tan(sector)
        u = cf * tg
        q = torch.sqrt(1.0 + u.square())
        p = torch.sqrt(1.0 - (sf * sg).square())

        g_overhang = g_length
        g_half_width = 2 * ctx.cols * (g_width + g_area * length)
        g_half_length = 2 * ctx.rows * (g_length + g_area * width)

        # half_width = b u / q and overhang = b / q with q = sqrt(1 + u^2)
        g_u = g_half_width * b / q.pow(3) - g_overhang * b * u / q.pow(3)
        g_b = g_half_width * u / q + g_overhang / q
        # half_length = a p
        g_p = g_half_length * a
        g_a = g_height * sf * sg + g_half_length * p

        g_fold = (
            g_height * a * cf * sg
            - g_u * sf * tg
            - g_p * sf * cf * sg.square() / p
        )
        g_sector = (
            g_height * a * sf * cg
            + g_u * cf / cg.square()
            - g_p * sf.square() * sg * cg / p
        )
        return g_fold, g_sector, g_a, g_b, None, None


def make_fold_spring(low: float = CONTACT_LOW, high: float = CONTACT_HIGH):
    """Energy of rotational springs along creases, stiffening at contact.

    Between ``low`` and ``high`` a crease is a linear spring about its rest
    angle; outside, the moment grows like a tangent and holds the facets apart.

    Returns a callable ``energy(theta, rest, stiffness, lengths)`` with theta of
    shape (states, creases), the others (creases,), and the result (states,).
    """
    if not 0.0 < low < high < TWO_PI:
        raise ValueError("contact angles have to lie inside (0, 2 pi)")
    room = TWO_PI - high
    c_low, c_high = math.pi / (2.0 * low), math.pi / (2.0 * room)

    def _excess(theta: Tensor):
        under = (low - theta).clamp_min(0.0)
        over = (theta - high).clamp_min(0.0)
        return under, over

    def _unit_energy(theta: Tensor, rest: Tensor) -> Tensor:
        under, over = _excess(theta)
        core = theta + under - over            # theta clamped to [low, high]
        stretch = core - rest
        unit = 0.5 * stretch.square() + stretch * (over - under)
        unit = unit - torch.log(torch.cos(c_low * under)) / c_low**2
        return unit - torch.log(torch.cos(c_high * over)) / c_high**2

    class FoldSpring(Function):

        @staticmethod
        def forward(theta, rest, stiffness, lengths):
            unit = _unit_energy(theta, rest)
            return (unit * (stiffness * lengths)).sum(dim=-1)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            theta, rest, stiffness, lengths = ctx.saved_tensors
            under, over = _excess(theta)
            unit = _unit_energy(theta, rest)
            core = theta + under - over
            moment = (
                (core - rest)
                - torch.tan(c_low * under) / c_low
                + torch.tan(c_high * over) / c_high
            )
            per_state = grad[:, None] * (stiffness * lengths)
            g_theta = per_state * moment
            # the rest angle enters through the linear part only
            g_rest = (per_state * (rest - theta)).sum(dim=0)
            by_unit = (grad[:, None] * unit).sum(dim=0)
            return g_theta, g_rest, by_unit * lengths, by_unit * stiffness

    def energy(theta: Tensor, rest: Tensor, stiffness: Tensor, lengths: Tensor) -> Tensor:
        return FoldSpring.apply(theta, rest, stiffness, lengths)

    energy.rule = FoldSpring
    return energy


class FlatFoldLoss(nn.Module):
    """Squared Kawasaki residuals, plus a pull to the drawn pattern."""

    def __init__(self, graph: CreaseGraph, drawn: Tensor, pull: float = 1e-2):
        super().__init__()
        self.graph = graph
        self.register_buffer("drawn", drawn)
        self.pull = pull

    def forward(self, coords: Tensor) -> Tensor:
        residual = KawasakiResidual.apply(coords, self.graph.centre, self.graph.ring)
        return residual.square().sum() + self.pull * (coords - self.drawn).square().sum()


class MiuraDesigner(nn.Module):
    def __init__(self, n: int, rows: int, cols: int):
        super().__init__()
        self.rows, self.cols = rows, cols
        self.fold_logit = nn.Parameter(torch.zeros(n))
        self.sector_logit = nn.Parameter(torch.zeros(n))
        self.log_sides = nn.Parameter(torch.zeros(2, n))

    def forward(self) -> MiuraEnvelope:
        fold = 0.5 * math.pi * torch.sigmoid(self.fold_logit)
        sector = math.radians(20) + math.radians(65) * torch.sigmoid(self.sector_logit)
        a, b = self.log_sides.exp()
        return MiuraEnvelope(*MiuraSheet.apply(fold, sector, a, b, self.rows, self.cols))

    def loss(self, area: Tensor, height: Tensor) -> Tensor:
        env = self()
        return ((env.area - area) / area).square().sum() + (env.height - height).square().sum()


def waterbomb_pattern() -> tuple[Tensor, list, list]:
    """A square with one interior vertex of degree six."""
    coords = torch.tensor(
        [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.1], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]
    )
    edges = [(0, i) for i in range(1, 7)]
    return coords, edges, [0]


if __name__ == "__main__":
    coords, edges, interior = waterbomb_pattern()
    graph = crease_graph(coords, edges, interior)
    points = coords.clone().requires_grad_(True)
    loss_fn = FlatFoldLoss(graph, coords)
    opt = torch.optim.SGD([points], lr=0.05)
    for _ in range(50):
        opt.zero_grad()
        loss = loss_fn(points)
        loss.backward()
        opt.step()
    print("flat-fold loss", loss.item())

    designer = MiuraDesigner(2, rows=3, cols=4)
    target = designer.loss(torch.tensor([20.0, 30.0]), torch.tensor([0.4, 0.3]))
    target.backward()
    print("miura", target.item(), designer.fold_logit.grad)

    energy = make_fold_spring()
    theta = torch.tensor([[0.5, 3.0, 5.9], [2.0, 3.2, 4.0]], requires_grad=True)
    rest = torch.full((3,), math.pi, requires_grad=True)
    energy(theta, rest, torch.ones(3), torch.tensor([1.0, 0.5, 2.0])).sum().backward()
    print("moments", theta.grad, "rest", rest.grad)
