"""Cases that are written down as numbers, and the ideas that fit them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.judge.diagnose.case import Case, Elsewhere, Rearranged, fits
from gradcheck_cli.reals.balls.balls import exact

Array = np.ndarray[Any, Any]
Gradient = Callable[[Sequence[Array], Sequence[Array]], Any]


def balls(numbers: Any) -> Array:
    """Exact balls around these numbers; balls stay what they are."""
    array = np.asarray(numbers)
    return array if array.dtype == object else np.asarray(exact(array.astype(np.float64)))


def case(
    *truth: Any,
    leaf: int = 0,
    points: Sequence[Any] = (),
    cotangents: Sequence[Any] = (),
    values: Sequence[Any] = (),
) -> Case:
    """The truth for each argument, and what goes in and comes out; rows first."""
    return Case(
        leaf=leaf,
        names=["x", "y", "z"][: max(len(truth), len(points))],
        points=[np.asarray(p, np.float64) for p in points],
        cotangents=[np.asarray(c, np.float64) for c in cotangents],
        truth=[balls(t) for t in truth],
        values=[balls(v) for v in values],
    )


def fitting(
    ideas: Iterable[Rearranged | Elsewhere],
    case: Case,
    formula: Any,
    gradient: Gradient | None = None,
) -> list[str]:
    """What the ideas that give the formula say; `gradient` is the truth of points and cotangents."""
    texts = []
    for idea in ideas:
        if isinstance(idea, Rearranged):
            candidate = idea.gradient
        else:
            assert gradient is not None
            candidate = balls(gradient(idea.points, idea.cotangents))
        if fits(candidate, balls(formula), case.truth[case.leaf]):
            texts.append(idea.text)
    return texts
