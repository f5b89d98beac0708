"""Points that come before all others: those that the user asks for, and those of recorded calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.contract.worker import AskedPoint
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.signature import Leaf


def asked_first(
    asked: Sequence[AskedPoint], leaves: Sequence[Leaf], fmt: Format, points: Points
) -> Points:
    """The points of `--at` before all others; arguments that they do not name keep their plainest value."""
    rows = [point.numbers for point in asked if _fits(point.numbers, leaves)]
    if not rows:
        return points
    arrays = []
    for i, leaf in enumerate(leaves):
        plain = points.leaves[i][0]
        first = [_filled(leaf, row[leaf.path]) if leaf.path in row else plain for row in rows]
        arrays.append(np.concatenate([fmt.round(np.stack(first)), points.leaves[i]]))
    return Points(arrays, ["asked for"] * len(rows) + points.recipes)


def recorded_first(leaves: Sequence[Leaf], fmt: Format, points: Points) -> Points:
    """The numbers of a recorded call before all others; where none were kept, the plainest ones."""
    if all(leaf.recorded is None for leaf in leaves):
        return points
    arrays = []
    for leaf, rows in zip(leaves, points.leaves, strict=True):
        first = rows[0] if leaf.recorded is None else fmt.round(leaf.recorded)
        arrays.append(np.concatenate([first[None], rows]))
    return Points(arrays, ["recorded", *points.recipes])


def _fits(numbers: Mapping[str, Sequence[float]], leaves: Sequence[Leaf]) -> bool:
    """Does the signature have one of the names, and each that it has with as many numbers?"""
    sizes = {leaf.path: leaf.size for leaf in leaves}
    common = [name for name in numbers if name in sizes]
    return bool(common) and all(len(numbers[name]) in (1, sizes[name]) for name in common)


def _filled(leaf: Leaf, numbers: Sequence[float]) -> np.ndarray[Any, Any]:
    """All elements alike, or each its own."""
    if len(numbers) == 1:
        return np.full(leaf.shape, numbers[0])
    return np.reshape(numbers, leaf.shape)
