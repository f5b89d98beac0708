"""The two ends of a range, known by their names: `low` is below `high`, `min_vals` below `max_vals`.

Where both are of one number, or the wrong way round, there is no range, and nobody means what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.signature import Leaf

Array = np.ndarray[Any, Any]

_ENDS = {
    "min": "max", "low": "high", "lower": "upper", "lo": "hi", "minimum": "maximum",
    "minval": "maxval", "vmin": "vmax", "xmin": "xmax", "amin": "amax",
}  # fmt: skip
_APART = 2.0**-6  # how far equal ends are moved, beside their size


def in_order(leaves: Sequence[Leaf], rows: Sequence[Array], fmt: Format) -> list[Array]:
    """The rows of all arguments, with the ends of each range in their order and apart, as far as their domains go."""
    ordered = list(rows)
    for low, high in _ranges(leaves):
        for number, moved in zip(
            (low, high), _apart(ordered[low], ordered[high], fmt), strict=True
        ):
            domain = leaves[number].domain
            ordered[number] = moved if domain is None else domain.into(moved, fmt)
    return ordered


def _ranges(leaves: Sequence[Leaf]) -> Iterator[tuple[int, int]]:
    """The numbers of the arguments that are the ends of one range."""
    numbers = {leaf.path: number for number, leaf in enumerate(leaves)}
    for path, number in numbers.items():
        words = path.split("_")
        for place, word in enumerate(words):
            end = "_".join([*words[:place], _ENDS.get(word.lower(), ""), *words[place + 1 :]])
            if word.lower() in _ENDS and end in numbers:
                yield number, numbers[end]


def _apart(low: Array, high: Array, fmt: Format) -> tuple[Array, Array]:
    """The lower end, exchanged with the upper one where they are of one shape; and the upper one above it."""
    if low.shape == high.shape:
        low, high = np.minimum(low, high), np.maximum(low, high)
    beside = _beside(low, high)
    least = _APART * np.maximum(np.maximum(np.abs(beside), np.abs(high)), 1.0)
    gap = high - beside
    above = beside + np.maximum(np.abs(gap), least)
    return low, fmt.round(np.clip(np.where(gap >= least, high, above), -fmt.max, fmt.max))


def _beside(low: Array, high: Array) -> Array:
    """For each number of the upper end the lower one that it belongs to, or else the largest of its row."""
    spread = low.reshape(len(low), *[1] * (high.ndim - low.ndim), *low.shape[1:])
    try:
        return np.broadcast_to(spread, high.shape)
    except ValueError:
        largest = low.reshape(len(low), -1).max(axis=1, initial=-np.inf)
        return np.broadcast_to(largest.reshape(-1, *[1] * (high.ndim - 1)), high.shape)
