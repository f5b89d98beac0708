"""What a hypothesis sees of a wrong formula: a few rows at which truth and formula are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]

_FEWEST_FITS = 3  # numbers that must agree, so that none does by chance


@dataclass(frozen=True, slots=True)
class Case:
    """Rows first everywhere; `leaf` is the argument whose gradient is wrong."""

    leaf: int
    names: Sequence[str]
    points: Sequence[Array]
    cotangents: Sequence[Array]
    truth: Sequence[Array]  # balls, for each argument
    values: Sequence[Array]  # balls, for each output


@dataclass(frozen=True, slots=True)
class Rearranged:
    """The formula might be this array of balls."""

    text: str
    gradient: Array


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The formula might be the truth at other points, or with other cotangents."""

    text: str
    points: Sequence[Array]
    cotangents: Sequence[Array]


class Hypothesis(Protocol):
    def __call__(self, case: Case) -> Iterator[Rearranged | Elsewhere]: ...


def fits(candidate: Array, formula: Array, truth: Array) -> bool:
    """Are these balls the formula, and does that say something?

    It does if enough numbers are not zero, and if they are not the truth's own.
    """
    if candidate.shape != formula.shape:
        return False
    pairs = list(zip(candidate.flat, formula.flat, strict=True))
    telling = sum(bool(f != 0) for f in formula.flat)
    apart = any(not c.overlaps(t) for c, t in zip(candidate.flat, truth.flat, strict=True))
    return (
        telling >= min(_FEWEST_FITS, len(pairs))
        and telling > 1
        and apart
        and all(c.is_finite() and c.overlaps(f) for c, f in pairs)
    )
