"""What a hypothesis sees of a wrong formula: a few rows at which truth and formula are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


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

    says: str
    gradient: Array


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The formula might be the truth at other points, or with other cotangents."""

    says: str
    points: Sequence[Array]
    cotangents: Sequence[Array]


class Hypothesis(Protocol):
    def __call__(self, case: Case) -> Iterator[Rearranged | Elsewhere]: ...
