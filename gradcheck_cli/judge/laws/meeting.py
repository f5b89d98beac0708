"""Where arguments meet: faults that are there only because several are large, or vanish, at once (SEMANTICS A4, E2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import MODERATE
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.judge.laws.fault import Fault, fault_at
from gradcheck_cli.measure.accuracy import INFINITE, NAN
from gradcheck_cli.measure.coincidence import coincidental, coincidental_slope
from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.grading import grades, shared
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.together import at_the_ends_together, brought_about_by
from gradcheck_cli.subject.results import VALUE

Array = np.ndarray[Any, Any]

# Rows that are run again alone before a fault counts as one of the batch only.
_TRIES = 3
_ASKED = 4  # rows for each component of which it is asked whether several arguments bring the fault about
_COMPONENTS = 4


@dataclass(frozen=True, slots=True)
class Meeting:
    """Arguments that only together bring a fault about: one of them is large, or they are at the ends of their domains."""

    names: Sequence[str]
    severity: Severity

    @property
    def text(self) -> str:
        """Where they meet, in brackets."""
        names = " and ".join(f"`{name}`" for name in self.names)
        return f" (only where {names} meet)"


def meeting(m: Measurements, fault: Fault, row: int) -> Meeting | None:
    """The arguments that only together bring about what the function, or autodiff, does alike.

    An exponent of 100 beside a base of 100 is a note. Two shares that are both 0, where the function itself has no
    float, may be met: a warning. 0/0 where two ordinary numbers are equal, or opposite, is met soon enough.
    """
    if fault.severity is not Severity.ERROR or m.dear or not shared(m, fault.mode, fault.who)[row]:
        return None
    needed = _needed(m, fault, [row])[0]
    if len(needed) > 1 and _any_large(m, row, needed):
        return Meeting(needed, Severity.NOTE)
    if np.isfinite(columns(m.floats[fault.mode].value, m.count)[row]).all():
        return None
    at_ends = at_the_ends_together(m, row, fault.recurs, fault.is_healthy)
    return Meeting(at_ends, Severity.WARNING) if at_ends else None


def _any_large(m: Measurements, row: int, names: Sequence[str]) -> bool:
    own = [m.points[i][row] for name in names for i in m.arguments[name]]
    return any(p.size and np.abs(p).max() > MODERATE.value for p in own)


def by_fewest(m: Measurements, who: str, mode: str, severity: Severity, rows: Array) -> list[int]:
    """The plainest rows; where the function or autodiff does the same, first one that a single argument brings about."""
    plainest: list[int] = rows[:_TRIES].tolist()
    alike = shared(m, mode, who)
    if severity is not Severity.ERROR or m.dear or not alike[plainest].any():
        return plainest
    of_its_own = rows[~alike[rows]][:_TRIES].tolist()
    worst = grades(m, mode, who).component[rows]
    alone: list[int] = []
    for component in list(dict.fromkeys(worst.tolist()))[:_COMPONENTS]:
        own = rows[worst == component]
        spread = own[np.unique(np.linspace(0, len(own) - 1, _ASKED).astype(int))].tolist()
        needed = _needed(m, fault_at(m, who, mode, severity, spread[0]), spread)
        alone += [row for row, names in zip(spread, needed, strict=True) if len(names) < 2][:1]
    return list(dict.fromkeys([*alone, *of_its_own, *plainest]))


def by_coincidence(m: Measurements, fault: Fault, row: int) -> bool:
    """Is the truth a number here only because several arguments vanish at once?"""
    if fault.cause == NAN and coincidental(m, row):
        return True
    endless = fault.cause in (NAN, INFINITE) and fault.who != VALUE
    return endless and coincidental_slope(m, row, fault.component)


def _needed(m: Measurements, fault: Fault, rows: Sequence[int]) -> list[list[str]]:
    """For each row, the arguments each of which heals the fault."""
    return brought_about_by(m, rows, fault.recurs, fault.is_healthy)
