"""What a rule gives where two numbers of an array tie, and nothing else does (SEMANTICS E3).

There the function has two pieces, one for each order of the two. A convention gives the derivative of one
of them, or something between; two winners that are both given the whole gradient are no convention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import (
    ASIDE_BITS,
    JUMP_BITS,
    PIECES_BITS,
    TIED_DIRECTIONS,
    TIED_OUTPUTS,
    TIED_ROWS,
)
from gradcheck_cli.inputs.cotangents import cotangent, one_hot_names
from gradcheck_cli.inputs.lattice import generic
from gradcheck_cli.measure.ball_truth import Ask, Truth
from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.nudge import half_to
from gradcheck_cli.measure.states import KINK, REGULAR
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import working

Array = np.ndarray[Any, Any]

_BITS = 512
_MARKS = (-1.0, 0.0, 1.0)  # of an argument that says which, not how much


@dataclass(frozen=True, slots=True)
class Torn:
    """A row with such a tie at which the rule is neither of the pieces nor between them, and a component that tells."""

    row: int
    component: int


@derived
def torn(m: Measurements) -> Torn | None:
    """The first row at which a tie tears the rule from both pieces, if there is one."""
    if m.rule is None or m.dear or m.in_part or not m.sources.over_reals:
        return None
    for row, leaf in list(_rows(m))[: TIED_ROWS.value]:
        component = _apart(m, row, leaf)
        if component is not None:
            return Torn(row, component)
    return None


def _rows(m: Measurements) -> Iterator[tuple[int, int]]:
    """Rows at a kink of an argument of which exactly two numbers are equal, with its place.

    No other argument has equals or zeros there, but for one that has nothing but zeros, ones and signs anywhere.
    """
    states, start = m.reference.states(GRADIENTS), 0
    for leaf, points in enumerate(m.points):
        flat = np.sort(points.reshape(len(points), -1), axis=1)
        stop = start + flat.shape[1]
        pairs = (np.diff(flat, axis=1) == 0).sum(axis=1) == 1
        others = [p for i, p in enumerate(m.points) if i != leaf and not np.isin(p, _MARKS).all()]
        alone = pairs & (flat != 0).all(axis=1)
        alone &= generic(others) if others else True
        kinks = (states[:, start:stop] == KINK).any(axis=1)
        start = stop
        yield from ((int(row), leaf) for row in m.base_rows if alone[row] and kinks[row])


def _apart(m: Measurements, row: int, leaf: int) -> int | None:
    """A component of the argument at which the rule is off the pieces of some output, and off autodiff."""
    part = _part(m, leaf)
    names = one_hot_names(m.subject.outputs, TIED_OUTPUTS.value)
    weights = [cotangent(name, m.subject.outputs) for name in names]
    here = [p[row] for p in m.points]
    rule, auto = (
        _evaluated(source, [list(map(exact, here))], weights)
        for source in (m.sources.rule, m.sources.primal)
    )
    sides = _evaluated(m.sources.primal, list(_beside(here, leaf, m.seed)), weights)
    values = columns(sides.values, 2 * TIED_DIRECTIONS.value * len(weights))
    with working(_BITS):
        for k in range(len(weights)):
            beside = slice(k, None, len(weights))
            ours, around = _known(rule, slice(k, k + 1), part), _known(sides, beside, part)
            if ours is None or around is None or not _continuous(values[beside]):
                continue
            pieces = _pieces(around)
            off = _off(pieces, ours[0]) if len(pieces) == 2 else None
            as_autodiff = _known(auto, slice(k, k + 1), part)
            if off is not None and (as_autodiff is None or not _equal(ours[0], as_autodiff[0])):
                return int(part.start) + off
    return None


def _known(truth: Truth, rows: slice, part: slice) -> Array | None:
    """The gradients at some rows, if all are known."""
    count = len(truth.gradients[0])
    states = columns(truth.gradient_states, count)[rows, part]
    return columns(truth.gradients, count)[rows, part] if (states == REGULAR).all() else None


def _part(m: Measurements, leaf: int) -> slice:
    sizes = [int(np.prod(spec.shape, dtype=int)) for spec in m.subject.leaves]
    start = sum(sizes[:leaf])
    return slice(start, start + sizes[leaf])


def _beside(here: Sequence[Array], leaf: int, seed: int) -> Iterator[list[Array]]:
    """The point moved a little to both sides along generic directions of one argument."""
    rng = np.random.default_rng(seed)
    with working(_BITS):
        step = half_to(ASIDE_BITS.value)
        for _ in range(TIED_DIRECTIONS.value):
            shape = here[leaf].shape
            direction = rng.choice([-1, 1], shape) * (
                1 + rng.integers(0, 1 << 16, shape) / (1 << 16)
            )
            for sign in (-1, 1):
                moved = list(map(exact, here))
                moved[leaf] = moved[leaf] + exact(np.asarray(sign * direction)) * step
                yield moved


def _evaluated(
    source: Any, points: Sequence[Sequence[Array]], weights: Sequence[Sequence[Array]]
) -> Truth:
    """A source at each of the points with each of the cotangents, the points first."""
    rows = [(point, weight) for point in points for weight in weights]
    stacked = [np.stack([point[i] for point, _ in rows]) for i in range(len(points[0]))]
    each = [np.stack([weight[k] for _, weight in rows]) for k in range(len(weights[0]))]
    truth: Truth = source.evaluate(stacked, each, Ask(_BITS // 2, ties=False, nudged=False))
    return truth


def _continuous(values: Array) -> bool:
    return all(
        _near(a, b, JUMP_BITS.value) for row in values for a, b in zip(values[0], row, strict=True)
    )


def _near(a: arb, b: arb, bits: int) -> bool:
    return bool(abs(a - b) <= (abs(a) + abs(b) + 1) * half_to(bits)) or bool(a.overlaps(b))


def _equal(one: Array, other: Array) -> bool:
    return all(_near(a, b, PIECES_BITS.value) for a, b in zip(one, other, strict=True))


def _pieces(gradients: Array) -> list[Array]:
    """The different gradients among these."""
    pieces: list[Array] = []
    for each in gradients:
        if not any(_equal(each, piece) for piece in pieces):
            pieces.append(each)
    return pieces


def _off(pieces: Sequence[Array], ours: Array) -> int | None:
    """The component that is furthest from the line between two gradients; None on the line."""
    one, other = pieces
    gaps = [abs(b - a) for a, b in zip(one, other, strict=True)]
    widest = max(range(len(gaps)), key=lambda k: float(gaps[k].mid()))
    share = (ours[widest] - one[widest]) / (other[widest] - one[widest])
    room = half_to(PIECES_BITS.value)
    if bool(share < -room) or bool(share > 1 + room):
        return widest
    line = [a + share * (b - a) for a, b in zip(one, other, strict=True)]
    far = [k for k, (a, b) in enumerate(zip(line, ours, strict=True)) if not _near(a, b, PIECES_BITS.value)]  # fmt: skip
    return far[0] if far else None
