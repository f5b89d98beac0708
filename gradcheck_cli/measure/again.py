"""A witness run again alone in its real mode, before it is reported (SEMANTICS A1).

Batches are padded, mapped and compiled together; what the user runs is not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.frameworks.seam import AUTO, VALUE, Floats
from gradcheck_cli.measure.accuracy import Reference
from gradcheck_cli.measure.engine import Measurements

Array = np.ndarray[Any, Any]


def again(m: Measurements, row: int, mode: str, who: str) -> Measurements:
    """The row by itself, with the numbers that the framework gives for it alone.

    They replace those of the batch, so that what is shown is what the user will see.
    """
    key = ("again", row, mode, who)
    if key not in m.cache:
        point, cotangent = [p[row] for p in m.points], [c[row] for c in m.cotangents]
        alone = m.subject.run_once(point, cotangent, mode, who)
        for batch, single in zip(_of(m.floats[mode], who), alone, strict=True):
            batch[row] = single
        m.cache[key] = _only(m, row)
    found: Measurements = m.cache[key]
    return found


def _of(floats: Floats, who: str) -> list[Array]:
    if who == VALUE:
        return floats.rule_value
    return (floats.auto if who == AUTO else floats.custom) or []


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
        cache={}, _rows={},
    )  # fmt: skip


def _cut(arrays: list[Array], row: int) -> list[Array]:
    return [a[row : row + 1] for a in arrays]
