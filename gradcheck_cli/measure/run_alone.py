"""A witness run again alone in its real mode, before it is reported (SEMANTICS A1).

Batches are padded, mapped and compiled together; what the user runs is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.reference import Reference
from gradcheck_cli.subject.results import CUSTOM, VALUE, Floats

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Alone:
    """One row that is run by itself: in a mode, for the value, the rule's gradient or autodiff's."""

    row: int
    mode: str
    who: str


@derived
def again(m: Measurements, alone: Alone) -> Measurements:
    """Measurements of the row by itself, with the numbers that the framework gives for it alone."""
    single = _only(m, alone.row)
    floats = _replaced(single.floats[alone.mode], alone.who, 0, _numbers(m, alone))
    return replace(single, floats={**single.floats, alone.mode: floats})


def with_reruns(m: Measurements, reruns: Iterable[Alone]) -> Measurements:
    """Measurements in which the numbers of these rows are those that the user will see."""
    floats = dict(m.floats)
    for alone in reruns:
        batch = floats[alone.mode]
        floats[alone.mode] = _replaced(batch, alone.who, alone.row, _numbers(m, alone))
    return replace(m, floats=floats)


@derived
def _numbers(m: Measurements, alone: Alone) -> list[Array]:
    point, cotangent = ([a[alone.row] for a in arrays] for arrays in (m.points, m.cotangents))
    return m.subject.run_row(point, cotangent, alone.mode, alone.who)


def _replaced(floats: Floats, who: str, row: int, numbers: Sequence[Array]) -> Floats:
    """Floats of a batch with other numbers in one row; the batch itself stays as it is."""
    if who == VALUE:
        return replace(floats, rule_value=_with_row(floats.rule_value, row, numbers))
    if who == CUSTOM:
        return replace(floats, custom=_with_row(floats.custom or [], row, numbers))
    return replace(floats, auto=_with_row(floats.auto or [], row, numbers))


def _with_row(batch: Sequence[Array], row: int, numbers: Sequence[Array]) -> list[Array]:
    copies = [array.copy() for array in batch]
    for copy, single in zip(copies, numbers, strict=True):
        copy[row] = single
    return copies


def _only(m: Measurements, row: int) -> Measurements:
    """One row of everything that was measured."""
    rows = np.array([row])
    points, cotangents = [p[rows] for p in m.points], [c[rows] for c in m.cotangents]
    floats = {
        mode: Floats(
            _cut(f.value, row), _cut(f.rule_value, row),
            None if f.custom is None else _cut(f.custom, row),
            None if f.auto is None else _cut(f.auto, row),
        )
        for mode, f in m.floats.items()
    }  # fmt: skip
    reference = Reference(
        m.reference.source, m.reference.fmt, points, cotangents, m.truth.take(rows), m.seed
    )
    return replace(
        m, probes=[m.probes[row]], points=points, cotangents=cotangents, recipes=[m.recipes[row]],
        floats=floats, reference=reference, rule=None if m.rule is None else m.rule.take(rows),
    )  # fmt: skip


def _cut(arrays: list[Array], row: int) -> list[Array]:
    return [a[row : row + 1] for a in arrays]
