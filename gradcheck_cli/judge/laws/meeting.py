"""Where arguments meet: faults that are there only because several are large, or vanish, at once (SEMANTICS A4, E2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import MODERATE
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.judge.laws.fault import Fault, fault_at
from gradcheck_cli.measure.accuracy import INFINITE, NAN
from gradcheck_cli.measure.coincidence import coincidental, coincidental_slope
from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.grading import grades
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.together import arguments_of, brought_about_by
from gradcheck_cli.subject.results import VALUE

Array = np.ndarray[Any, Any]

# Rows that are run again alone before a fault counts as one of the batch only.
_TRIES = 3
_ASKED = 4  # rows for each component of which it is asked whether several arguments bring the fault about
_COMPONENTS = 4


def meeting(m: Measurements, fault: Fault, row: int) -> str:
    """The arguments that only together bring the fault about, in brackets, where the function itself has no float.

    One of them is large: 0/0 where two ordinary numbers are equal is met soon enough.
    """
    grave = fault.severity is Severity.ERROR and fault.cause in (NAN, INFINITE)
    if not grave or not _has_no_float(m, fault.mode)[row]:
        return ""
    needed = _needed(m, fault, [row])[0]
    own = [m.points[i][row] for name in needed for i in arguments_of(m)[name]]
    large = any(p.size and np.abs(p).max() > MODERATE.value for p in own)
    names = " and ".join(f"`{name}`" for name in needed)
    return f" (only where {names} meet)" if large and len(needed) > 1 else ""


def by_fewest(m: Measurements, who: str, mode: str, severity: Severity, rows: Array) -> list[int]:
    """The plainest rows; where the function itself has no float there, first one that a single argument brings about."""
    plainest: list[int] = rows[:_TRIES].tolist()
    no_float = _has_no_float(m, mode)
    if severity is not Severity.ERROR or not no_float[plainest].any():
        return plainest
    with_float = rows[~no_float[rows]][:_TRIES].tolist()
    worst = grades(m, mode, who).component[rows]
    alone: list[int] = []
    for component in list(dict.fromkeys(worst.tolist()))[:_COMPONENTS]:
        own = rows[worst == component]
        spread = own[np.unique(np.linspace(0, len(own) - 1, _ASKED).astype(int))].tolist()
        needed = _needed(m, fault_at(m, who, mode, severity, spread[0]), spread)
        alone += [row for row, names in zip(spread, needed, strict=True) if len(names) < 2][:1]
    return list(dict.fromkeys([*alone, *with_float, *plainest]))


def by_coincidence(m: Measurements, fault: Fault, row: int) -> bool:
    """Is the truth a number here only because several arguments vanish at once?"""
    if fault.cause == NAN and coincidental(m, row):
        return True
    endless = fault.cause in (NAN, INFINITE) and fault.who != VALUE
    return endless and coincidental_slope(m, row, fault.component)


def _needed(m: Measurements, fault: Fault, rows: Sequence[int]) -> list[list[str]]:
    """For each row, the arguments each of which heals the fault."""
    return brought_about_by(m, rows, fault.recurs, fault.is_healthy)


def _has_no_float(m: Measurements, mode: str) -> Array:
    """Rows in which a value of the function itself is none."""
    return np.asarray(~np.isfinite(columns(m.floats[mode].value, m.count)).all(axis=1))
