"""What the laws about floats share: the worst grade of a value or gradient becomes a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.fault import Fault, fault_at
from gradcheck_cli.judge.laws.meeting import Meeting, by_coincidence, by_fewest, meeting
from gradcheck_cli.measure.accuracy import Grades
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.grading import grades, why_excused
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.run_alone import Alone, again
from gradcheck_cli.measure.unmet import tiny_at_once, unmet
from gradcheck_cli.subject.results import OP_BY_OP

Array = np.ndarray[Any, Any]

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


@dataclass(frozen=True, slots=True)
class FloatRule:
    """A rule about floats: whose they are, for which causes they break it, and its message."""

    name: RuleName
    who: str
    causes: Sequence[str]  # gravest first
    message: Callable[[str, int], str]  # of a cause, and of the state of the truth


def worst_failure(m: Measurements, rule: FloatRule) -> Failure | None:
    """The failure of the worst severity, at the plainest row that shows it when it is run alone.

    What only several arguments bring about together is one of the last resort, and no error.
    """
    graded = {mode: grades(m, mode, rule.who) for mode in m.floats}
    together: Failure | None = None
    for severity in _ORDER:
        if together is not None and severity.rank <= together.severity.rank:
            break
        modes = [mode for mode, each in graded.items() if _rows(each, severity, rule.causes).size]
        for number, mode in enumerate(modes):
            for row in _confirmed_rows(m, rule, mode, severity):
                fault = fault_at(m, rule.who, mode, severity, row)
                met = meeting(m, fault, row)
                failure = _failure(m, rule, fault, row, modes[number:], met)
                if met is None:
                    return failure
                if together is None or failure.severity.rank > together.severity.rank:
                    together = failure
    return together


def _failure(
    m: Measurements,
    rule: FloatRule,
    fault: Fault,
    row: int,
    modes: Sequence[str],
    met: Meeting | None,
) -> Failure:
    """The failure of a fault: milder where arguments meet, at most a warning where it shows only op by op."""
    kind = Kind.VALUE_FLOATS if fault.what == VALUES else Kind.GRADIENT_FLOATS
    severity = fault.severity
    if met is not None:
        severity = met.severity
    elif list(modes) == [OP_BY_OP] and severity is Severity.ERROR:
        severity = Severity.WARNING
    return Failure(
        rule=rule.name,
        severity=severity,
        row=row,
        what=fault.what,
        component=fault.component,
        ground=Ground(kind, fault.cause),
        message=rule.message(fault.cause, int(m.reference.states(fault.what)[row, fault.component]))
        + (met.text if met else _where_nobody_goes(m, fault, row)),
        modes=tuple(modes),
        holds=fault.recurs,
        as_grave=fault.recurs_as_gravely,
        alone=Alone(row, fault.mode, fault.who),
    )


def _where_nobody_goes(m: Measurements, fault: Fault, row: int) -> str:
    """Why a fault at this row is a note at most, in brackets; nothing where it is not."""
    if m.beyond[row]:
        largest = max((float(np.abs(p[row]).max(initial=0)) for p in m.points), default=0)
        return " (at inputs beyond --reach)" if largest > 1 else " (at inputs next to nothing)"
    if tiny_at_once(m)[row]:
        return " (where several arguments are tiny at once)"
    why = why_excused(m, fault.mode, fault.who, row)
    return f" (where {why})" if why else ""


def _confirmed_rows(
    m: Measurements, rule: FloatRule, mode: str, severity: Severity
) -> Iterator[int]:
    """The rows that show the same when they are run alone: of the gravest cause first, the plainest first."""
    graded = grades(m, mode, rule.who)
    rows = _rows(graded, severity, rule.causes)
    # What models meet comes first; beyond it a NaN is not graver than a tail within.
    met = ~unmet(m)[rows]
    rows = rows[met] if met.any() else rows
    for cause in rule.causes:
        for row in by_fewest(m, rule.who, mode, severity, rows[graded.cause[rows] == cause]):
            if by_coincidence(m, fault_at(m, rule.who, mode, severity, row), row):
                continue
            alone = grades(again(m, Alone(row, mode, rule.who)), mode, rule.who)
            if alone.severity[0] >= severity.rank and alone.cause[0] == cause:
                yield int(row)


def _rows(graded: Grades, severity: Severity, causes: Sequence[str]) -> Array:
    return np.array([r for r in graded.rows(severity) if graded.cause[r] in causes], int)
