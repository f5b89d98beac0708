"""Domains of inputs: intervals, and families of arrays. Stress values are moved into them.

Adding a family is one function and one line in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.project.input_specs import Bounds

Array = np.ndarray[Any, Any]

_TIE = 2.0**-6  # how far apart equal numbers are moved, beside the largest
_WIDE = 100.0  # how many times its least number an interval's largest is, where powers of ten count
_TAME = 1e4  # beyond that, a family's arrays lose their digits before the function sees them


MATRICES = frozenset({"spd", "orthogonal", "symmetric", "lower", "upper"})
_DISCRETE = frozenset({"binary", "signs", "integers"})
_OF_ONE_SIZE = frozenset({"simplex", "unit", "orthogonal", "binary", "signs"})


@dataclass(frozen=True, slots=True)
class Domain:
    """The domain of one argument, and what says it, if that is not what says its shape."""

    bounds: Bounds
    source: str = field(default="", compare=False)
    above: tuple[str, ...] = ()  # the arguments that lie below it

    @property
    def text(self) -> str:
        """As a comment says it; what lies below an argument is no part of that."""
        return self.bounds.text

    @property
    def is_bounded(self) -> bool:
        """Does it say which numbers lie in it, and not only which of two is the larger one?"""
        b = self.bounds
        return b.family is not None or not bool(np.isinf([b.low, b.high]).all())

    @property
    def joint(self) -> bool:
        """Do the elements of an array depend on each other?"""
        return self.bounds.family in _JOINT

    @property
    def is_stated(self) -> bool:
        """Does somebody say which numbers lie in it, and not only what the argument is called?"""
        return self.is_bounded and not self.source.startswith("the name")

    @property
    def is_discrete(self) -> bool:
        """Does it hold single numbers alone, and none between them?"""
        return self.bounds.family in _DISCRETE

    @property
    def states_a_size(self) -> bool:
        """Does somebody say how large its numbers are? A name does not."""
        ends = np.isfinite([self.bounds.low, self.bounds.high]).all()
        return (bool(ends) and self.is_stated) or self.bounds.family in _OF_ONE_SIZE

    def suits(self, shape: tuple[int, ...]) -> bool:
        """May an array of this shape lie in it: is it a matrix, if the domain is one of matrices?"""
        if self.bounds.family not in MATRICES:
            return True
        square = len(shape) > 1 and shape[-1] == shape[-2]
        return square or (len(shape) > 1 and self.bounds.family == "orthogonal")

    def into(self, rows: Array, fmt: Format) -> Array:
        """Rows of values (the first axis counts them), each moved into the domain."""
        if self.bounds.family in _JOINT and rows.ndim > 1:
            return fmt.round(_JOINT[self.bounds.family](_tamed(rows)))
        if self.bounds.family == "nonzero":
            return np.where(rows == 0, 1.0, rows)
        if self.bounds.family == "binary":
            return np.asarray(rows > 0, np.float64)
        if self.bounds.family == "signs":
            return np.where(rows > 0, 1.0, -1.0)
        if self.bounds.family == "integers":
            count = self.bounds.high - self.bounds.low + 1
            return np.asarray(self.bounds.low + np.floor(np.abs(rows)) % count)
        return self._into_interval(rows, fmt)

    def has(self, values: Array, fmt: Format) -> bool:
        return bool((self.into(values[None], fmt)[0] == values).all())

    def _into_interval(self, rows: Array, fmt: Format) -> Array:
        if not self.is_bounded:
            return rows
        low, high = self._edges(fmt)
        inside = (rows >= low) & (rows <= high)
        if np.isfinite(low) and np.isfinite(high):
            mirrored = np.abs(rows)
            within = (mirrored >= low) & (mirrored <= high)
            moved = np.where(within, mirrored, _squashed(rows, low, high))
        elif np.isfinite(low):
            moved = low + np.abs(rows - low)
        else:
            moved = high - np.abs(rows - high)
        return np.clip(fmt.round(np.where(inside, rows, moved)), low, high)

    def _edges(self, fmt: Format) -> tuple[float, float]:
        """The first and last float that count; what must not be zero is a normal float."""
        b = self.bounds
        low = 0.0 if b.family == "positive" else b.low
        high = b.high
        if b.low_open or b.family == "positive":
            low = 2 * float(np.sqrt(fmt.tiny)) if low == 0 else _beside(low, 1, fmt)
        if b.high_open:
            high = -2 * float(np.sqrt(fmt.tiny)) if high == 0 else _beside(high, -1, fmt)
        return low, high


def _squashed(rows: Array, low: float, high: float) -> Array:
    """All numbers between the two, in their order; over many powers of ten, these are filled evenly."""
    share = 0.5 + 0.5 * rows / (1 + np.abs(rows))
    if low > 0 and high > _WIDE * low:
        return np.asarray(low * (high / low) ** share)
    return np.asarray(low + (high - low) * share)


def _beside(edge: float, step: int, fmt: Format) -> float:
    return float(fmt.moved(fmt.round([edge]), step)[0]) if np.isfinite(edge) else edge


def _tamed(rows: Array) -> Array:
    return np.clip(rows, -_TAME, _TAME)


# -- families -----------------------------------------------------------------------


def _simplex(rows: Array) -> Array:
    weights = np.abs(rows)
    total = weights.sum(axis=-1, keepdims=True)
    even = np.full_like(weights, 1 / rows.shape[-1])
    return np.where(total > 0, weights / np.where(total > 0, total, 1), even)


def _sorted(rows: Array) -> Array:
    return np.sort(rows, axis=-1)


def _increasing(rows: Array) -> Array:
    """Sorted, with ties moved apart by a small share of the largest number."""
    ordered = np.sort(rows, axis=-1)
    ties = (np.diff(ordered, axis=-1) <= 0).any(axis=-1, keepdims=True)
    largest = np.abs(ordered).max(axis=-1, keepdims=True, initial=0)
    step = _TIE * np.where(largest > 0, largest, 1.0) * np.arange(ordered.shape[-1])
    return np.where(ties, ordered + step, ordered)


def _boxes(rows: Array) -> Array:
    """By two corners: in each direction the first one lies below the second one."""
    half = rows.shape[-1] // 2
    if not half:
        return rows
    corners = np.stack([rows[..., :half], rows[..., half : 2 * half]], axis=-1)
    first, second = np.moveaxis(_increasing(corners), -1, 0)
    return np.concatenate([first, second, rows[..., 2 * half :]], axis=-1)


def _unit(rows: Array) -> Array:
    rows = _nonzero(rows)
    unit: Array = rows / np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    return unit


def _nonzero(rows: Array) -> Array:
    """The first direction in place of vectors of no length."""
    first = np.zeros_like(rows)
    first[..., 0] = 1
    return np.where((rows * rows).sum(axis=-1, keepdims=True) > 0, rows, first)


def _spd(rows: Array) -> Array:
    """A multiple of the identity beside it keeps it definite."""
    size = np.abs(rows).max(axis=(-2, -1), keepdims=True)
    scaled = rows / np.where(size > 0, size, 1)
    return scaled @ np.swapaxes(scaled, -1, -2) + np.eye(rows.shape[-1]) / 2


def _orthogonal(rows: Array) -> Array:
    basis: Array = np.linalg.qr(rows + 1e-3 * np.eye(rows.shape[-2], rows.shape[-1])).Q
    return basis


def _symmetric(rows: Array) -> Array:
    return (rows + np.swapaxes(rows, -1, -2)) / 2


def _lower(rows: Array) -> Array:
    """What stands on the diagonal is positive, so that the matrix has an inverse."""
    eye = np.eye(rows.shape[-2], rows.shape[-1])
    return np.tril(rows, -1) + eye * (np.abs(rows) + 0.5)


def _upper(rows: Array) -> Array:
    return np.swapaxes(_lower(np.swapaxes(rows, -1, -2)), -1, -2)


_JOINT: dict[str | None, Callable[[Array], Array]] = {
    "simplex": _simplex,
    "sorted": _sorted,
    "increasing": _increasing,
    "boxes": _boxes,
    "unit": _unit,
    "nonzero": _nonzero,
    "spd": _spd,
    "orthogonal": _orthogonal,
    "symmetric": _symmetric,
    "lower": _lower,
    "upper": _upper,
}
