"""Points that come before all others: those that the user asks for, and those of recorded calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.project.point_specs import parse_pairs


def parse_at(wanted: Sequence[str], leaves: Sequence[Leaf], fmt: Format, points: Points) -> Points:
    """As in `--at "x=100, y=[1, 2]"`: the points with the asked-for ones in front; arguments not named keep their plainest value."""
    rows = [row for text in wanted if (row := _row(parse_pairs(text), leaves)) is not None]
    if not rows:
        return points
    arrays = []
    for i, leaf in enumerate(leaves):
        plain = points.leaves[i][0]
        asked = [_filled(leaf, row[leaf.path]) if leaf.path in row else plain for row in rows]
        arrays.append(np.concatenate([fmt.round(np.stack(asked)), points.leaves[i]]))
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


def _row(pairs: dict[str, list[float]], leaves: Sequence[Leaf]) -> dict[str, list[float]] | None:
    """Only for signatures that know one of the names, with as many numbers."""
    sizes = {leaf.path: leaf.size for leaf in leaves}
    known = [name for name in pairs if name in sizes]
    fits = all(len(pairs[name]) in (1, sizes[name]) for name in known)
    return pairs if known and fits else None


def _filled(leaf: Leaf, numbers: Sequence[float]) -> np.ndarray[Any, Any]:
    """All elements alike, or each its own."""
    if len(numbers) == 1:
        return np.full(leaf.shape, numbers[0])
    return np.reshape(numbers, leaf.shape)
