"""The right formula of the wrong number: of the output, of |x|, of another argument."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradcheck_cli.judge.diagnose.case import Array, Case, Elsewhere


def residuals(case: Case) -> Iterator[Elsewhere]:
    """The truth with something else in the place of each argument."""
    for i, (name, x) in enumerate(zip(case.names, case.points, strict=True)):
        yield _with(case, i, f"it is the truth at |{name}|", np.abs(x))
        for value in case.values:
            if value.shape == x.shape and all(ball.is_finite() for ball in value.flat):
                yield _with(case, i, f"it is the truth at the output instead of {name}", value)
        for j in range(i):
            if case.points[j].shape == x.shape:
                both = list(case.points)
                both[i], both[j] = case.points[j], x
                text = f"it is the truth with {case.names[j]} and {name} exchanged"
                yield Elsewhere(text, both, case.cotangents)


def _with(case: Case, i: int, text: str, values: Array) -> Elsewhere:
    points: Sequence[Array] = [values if k == i else p for k, p in enumerate(case.points)]
    return Elsewhere(text, points, case.cotangents)
