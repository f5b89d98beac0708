"""The two ends of a range, known by their names or by what is said of them: `low` is below `high`, `min_vals` below `max_vals`.

Where both are of one number, or the wrong way round, there is no range, and nobody means what comes out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature

Array = np.ndarray[Any, Any]

_ENDS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("low", "high"),
    ("lo", "hi"),
    ("lower", "upper"),
    ("near", "far"),
    ("inner", "outer"),
    ("minval", "maxval"),
    ("vmin", "vmax"),
    ("xmin", "xmax"),
    ("ymin", "ymax"),
    ("zmin", "zmax"),
    ("tmin", "tmax"),
    ("amin", "amax"),
    ("lb", "ub"),
    ("floor", "cap"),
    ("floor", "ceiling"),
    ("attach", "detach"),
    ("attachment", "detachment"),
)
_APART = 2.0**-6  # how far equal ends are moved, beside their size
_CLOSE = _APART / 2  # nearer ends are moved: what was moved once stays


def pairs(names: Collection[str]) -> Iterator[tuple[str, str]]:
    """The lower and the upper end of each range."""
    for name in names:
        for low, high in _ENDS:
            # `qmin`, `min_val`, `lo`: the word may stand at either end of the name.
            other = re.sub(rf"(?<![^\W_]{{2}}){low}(?![^\W_])", high, name, count=1)
            if other != name and other in names:
                yield name, other
                break


def are_crossed(signature: Signature) -> bool:
    """Is the lower of two plain numbers, which are the ends of a range, not below the upper one?"""
    plain = {
        name: value.value
        for name, value in signature.arguments
        if isinstance(value, Fixed) and isinstance(value.value, int | float)
    }
    return any(plain[low] >= plain[high] for low, high in pairs(plain))


def in_order(leaves: Sequence[Leaf], rows: Sequence[Array], fmt: Format) -> list[Array]:
    """The rows of all arguments, with the ends of each range in their order and apart, as far as their domains go."""
    ordered = list(rows)
    ranges = list(_ranges(leaves))
    for low, high in ranges * (len(ranges) + 1):  # one argument may be an end of several
        lower, upper = _apart(ordered[low], ordered[high], fmt)
        ordered[low], ordered[high] = (
            leaves[low].within(lower, fmt),
            leaves[high].within(upper, fmt),
        )
        ordered[low] = _below(leaves[low], ordered[low], ordered[high], fmt)
    return ordered


def _below(leaf: Leaf, low: Array, high: Array, fmt: Format) -> Array:
    """The lower end, further down where the domain of the upper one has brought that below it."""
    if low.shape != high.shape or (low < high).all():
        return low
    under = leaf.within(fmt.round(np.where(high > 0, high / 2, 2 * high - 1)), fmt)
    return np.where((low >= high) & (under < high), under, low)


def point_in_order(leaves: Sequence[Leaf], point: Sequence[Array], fmt: Format) -> list[Array]:
    """One point, with the ends of each range in their order."""
    return [row[0] for row in in_order(leaves, [np.asarray(values)[None] for values in point], fmt)]


def is_in_order(leaves: Sequence[Leaf], point: Sequence[Array], fmt: Format) -> bool:
    """Are the ends of each range in their order at this point?"""
    moved = point_in_order(leaves, point, fmt)
    return all(np.array_equal(m, p, equal_nan=True) for m, p in zip(moved, point, strict=True))


def _ranges(leaves: Sequence[Leaf]) -> Iterator[tuple[int, int]]:
    """The numbers of the arguments that are the ends of one range."""
    numbers = {leaf.path: number for number, leaf in enumerate(leaves)}
    said = [
        (low, leaf.path) for leaf in leaves if leaf.domain is not None for low in leaf.domain.above
    ]
    for low, high in dict.fromkeys([*pairs(numbers), *said]):
        if low in numbers:
            yield numbers[low], numbers[high]


def _apart(low: Array, high: Array, fmt: Format) -> tuple[Array, Array]:
    """The lower end, exchanged with the upper one where they are of one shape; and the upper one above it."""
    if low.shape == high.shape:
        low, high = np.minimum(low, high), np.maximum(low, high)
    beside = _beside(low, high)
    size = np.maximum(np.maximum(np.abs(beside), np.abs(high)), 1.0)
    gap = high - beside
    above = beside + np.maximum(np.abs(gap), _APART * size)
    return low, fmt.round(np.clip(np.where(gap >= _CLOSE * size, high, above), -fmt.max, fmt.max))


def _beside(low: Array, high: Array) -> Array:
    """For each number of the upper end the lower one that it belongs to, or else the largest of its row."""
    spread = low.reshape(len(low), *[1] * (high.ndim - low.ndim), *low.shape[1:])
    try:
        return np.broadcast_to(spread, high.shape)
    except ValueError:
        largest = low.max(axis=tuple(range(1, low.ndim)), initial=-np.inf)
        return np.broadcast_to(largest.reshape(-1, *[1] * (high.ndim - 1)), high.shape)
