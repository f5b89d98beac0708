"""Points at both sides of each bound that the code clamps at or compares with, and near it.

A clamp that is active far from its bound tells as little as one that never is: there its argument is next to
nothing. So the points of the lattice are made larger and smaller until what is compared lies close to its bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.adequacy.replay import NotReplayed, Replay, replay
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.lattice import Points, generic
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.reals.program import Program, Slot, Step

Array = np.ndarray[Any, Any]

RECIPE = "beside a bound"

_PAIRS = ("max", "min", "gt", "ge", "lt", "le")
_CLOSE = 0.5  # of the larger of both
_EXPONENTS = range(-36, 37)
_MOST_STARTS = 6
_MOST_POINTS = 6
_MOST_NUMBERS = 4_000_000


@dataclass(frozen=True, slots=True)
class Bound:
    """Two numbers of a program that are compared; a step's own, neither of them infinite."""

    program: int
    left: Slot
    right: Slot


def turning_points(
    programs: Sequence[Program],
    leaves: Sequence[Leaf],
    outputs: Sequence[tuple[int, ...]],
    points: Points,
    fmt: Format,
    reach: float,
) -> Points:
    """Points beside the bounds that none of these points lies beside, at the sides that they leave out."""
    none = Points([p[:0] for p in points.leaves], [])
    arrays = [
        p.reshape(len(points), *leaf.shape) for p, leaf in zip(points.leaves, leaves, strict=True)
    ]
    bounds = [b for i, program in enumerate(programs) for b in _bounds(i, program)]
    usable = np.flatnonzero(generic(arrays))
    if not bounds or not len(usable):
        return none
    seen = _sides(programs, bounds, [a[usable] for a in arrays], outputs)
    if seen is None or seen.any(axis=0).all():
        return none
    starts = usable[np.unique(np.linspace(0, len(usable) - 1, _MOST_STARTS).astype(int))]
    tried = _tried([a[starts] for a in arrays], leaves, fmt, reach)
    affordable = _MOST_NUMBERS // max(1, *(program.numbers() for program in programs))
    tried = [t[:affordable] for t in tried]
    there = _sides(programs, bounds, tried, outputs) if len(tried[0]) else None
    if there is None:
        return none
    chosen = list(_chosen(there & ~seen.any(axis=0)))
    return Points([t[chosen] for t in tried], [RECIPE] * len(chosen))


def _bounds(number: int, program: Program) -> Iterator[Bound]:
    for step in program.steps:
        for left, right in () if step.call is not None else _compared(step):
            if not any(_says_nothing(program.constants.get(slot)) for slot in (left, right)):
                yield Bound(number, left, right)


def _compared(step: Step) -> list[tuple[Slot, Slot]]:
    """What a step holds beside what."""
    if step.name == "clamp" and step.in_avals[1].kind == "f":
        low, middle, high = step.ins
        return [(middle, low), (middle, high)]
    if step.name in _PAIRS and step.in_avals[0].kind == "f":
        left, right = step.ins
        return [(left, right)]
    return []


def _says_nothing(constant: Any) -> bool:
    """Is it an infinity?"""
    return constant is not None and bool(np.isinf(np.asarray(constant, np.float64)).any())


def _sides(
    programs: Sequence[Program],
    bounds: Sequence[Bound],
    points: Sequence[Array],
    outputs: Sequence[tuple[int, ...]],
) -> Array | None:
    """Rows × bounds × sides: does some element lie close to the bound at this side?"""
    count = len(points[0])
    weights = [np.ones((count, *shape)) for shape in outputs]
    try:
        runs = [replay(program, [*points, *weights]) for program in programs]
    except NotReplayed:
        return None
    sides = [_beside(runs[bound.program], bound, count) for bound in bounds]
    return np.stack(sides, axis=1)


def _beside(run: Replay, bound: Bound, count: int) -> Array:
    left, right = _aligned(run.slots[bound.left], run.slots[bound.right])
    with np.errstate(all="ignore"):
        apart = left - right
        close = np.abs(apart) <= _CLOSE * np.maximum(np.abs(left), np.abs(right))
        close |= right == 0  # nothing is near zero but itself
    both = [(close & (side * apart > 0)).reshape(len(apart), -1).any(axis=1) for side in (-1, 1)]
    return np.stack([np.broadcast_to(one, (count,)) for one in both], axis=1)


def _aligned(left: Any, right: Any) -> tuple[Array, Array]:
    """Both in float64, with axes behind a single number's row: a clamp takes one for all elements."""
    both = [np.asarray(number, np.float64) for number in (left, right)]
    axes = max(array.ndim for array in both)
    ones = [(*array.shape, *[1] * (axes - array.ndim)) for array in both]
    return both[0].reshape(ones[0]), both[1].reshape(ones[1])


def _tried(
    starts: Sequence[Array], leaves: Sequence[Leaf], fmt: Format, reach: float
) -> list[Array]:
    """The starts with all arguments, and each alone, made larger and smaller; the nearest first."""
    count = len(starts)
    alone = range(count if 1 < count <= 4 else 0)
    scaled: list[list[Array]] = [[] for _ in starts]
    for exponent in sorted(_EXPONENTS, key=abs):
        for only in (None, *alone):
            for i, start in enumerate(starts):
                moved = start * 2.0**exponent if only in (None, i) else start
                scaled[i].append(moved)
    tried = []
    for leaf, rows in zip(leaves, scaled, strict=True):
        whole = np.clip(np.concatenate(rows), -reach, reach)
        rounded = fmt.round(whole.reshape(-1)).reshape(whole.shape)
        tried.append(leaf.within(rounded, fmt))
    return tried


def _chosen(new: Array) -> Iterator[int]:
    """Rows that show most of what is new, one after the other."""
    left = np.ones(new.shape[1:], bool)
    for _ in range(_MOST_POINTS):
        shown = (new & left).reshape(len(new), -1).sum(axis=1)
        row = int(shown.argmax())
        if not shown[row]:
            return
        yield row
        left &= ~new[row]
