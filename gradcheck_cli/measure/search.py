"""Beyond the lattice: hypothesis looks for an input at which something is gravely wrong, and shrinks it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gradcheck_cli.contract.limits import FORMULA_EPS
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.ends import point_in_order
from gradcheck_cli.inputs.simplify import first_found
from gradcheck_cli.measure.engine import moved
from gradcheck_cli.measure.formula_gap import gaps
from gradcheck_cli.measure.grading import grades
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.subject.results import AUTO, CUSTOM, VALUE

Array = np.ndarray[Any, Any]

_MOST_NUMBERS = 64
_WIDTHS: dict[str, Literal[16, 32, 64]] = {"float16": 16, "bfloat16": 32, "float32": 32}


def searched(m: Measurements, examples: int, reach: float) -> list[Array] | None:
    """The simplest point that was found, if any was."""
    leaves = m.subject.leaves
    rows = m.base_rows
    if m.in_part or sum(v.size for v in leaves) > _MOST_NUMBERS or not len(rows):
        return None
    width = _WIDTHS.get(m.fmt.name, 64)

    def wrong(flat: list[float]) -> bool:
        point = _shaped(flat, leaves, m)
        return _gravely(moved(m, int(rows[0]), point))

    flat = first_found(sum(v.size for v in leaves), width, min(reach, m.fmt.max), wrong, examples)
    return None if flat is None else _shaped(flat, leaves, m)


def _shaped(flat: list[float], leaves: Any, m: Measurements) -> list[Array]:
    point, start = [], 0
    for leaf in leaves:
        values = m.fmt.round(flat[start : start + leaf.size]).reshape(leaf.shape)
        start += leaf.size
        point.append(leaf.within(values[None], m.fmt)[0])
    return point_in_order(leaves, point, m.fmt)


def _gravely(m: Measurements) -> bool:
    """An error of the floats, or a formula that is apart from the truth by more than rounding."""
    who = CUSTOM if m.judged == "custom" else AUTO
    error = Severity.ERROR.rank
    if any((grades(m, m.mode, w).severity == error).any() for w in (VALUE, who)):
        return True
    return m.rule is not None and bool((gaps(m) > FORMULA_EPS.value * m.fmt.eps).any())
