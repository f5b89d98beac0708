"""What the laws about floats share: the worst grade of a value or gradient becomes a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.measure.accuracy import DIGITS, INFINITE, NAN, ZERO, Grades
from gradcheck_cli.measure.coincidence import coincidental, coincidental_slope
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.grading import grades
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.run_alone import Alone, again
from gradcheck_cli.measure.states import LIMIT, REGULAR
from gradcheck_cli.measure.unmet import tiny_at_once, unmet
from gradcheck_cli.subject.results import AUTO, CUSTOM, OP_BY_OP, VALUE

Array = np.ndarray[Any, Any]

# Rows that are run again alone before a fault counts as one of the batch only.
_TRIES = 3
_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


@dataclass(frozen=True, slots=True)
class FloatRule:
    """A rule about floats: whose they are, for which causes they break it, and its message."""

    name: RuleName
    who: str
    causes: Sequence[str]  # gravest first
    message: Callable[[str], str]  # of a cause


@dataclass(frozen=True, slots=True)
class Fault:
    """A bad float: whose it is and in which mode, its component, the cause and how grave it is."""

    who: str
    mode: str
    cause: str
    severity: Severity
    component: int

    @property
    def what(self) -> str:
        return VALUES if self.who == VALUE else GRADIENTS

    def recurs_as_gravely(self, m: Measurements) -> Array:
        """Rows where the component is graded as severely, for the same cause: where it matters."""
        graded = grades(m, self.mode, self.who)
        as_grave = (graded.severity >= self.severity.rank) & (graded.cause == self.cause)
        return np.asarray(as_grave & (graded.component == self.component))

    def recurs(self, m: Measurements) -> Array:
        """Rows where the cause is the same; NaN, inf and zero without forgiveness and scale."""
        if self.cause == DIGITS:
            return np.asarray(grades(m, self.mode, self.who).severity >= self.severity.rank)
        floats = m.floats[self.mode]
        arrays = {VALUE: floats.rule_value, CUSTOM: floats.custom, AUTO: floats.auto}[self.who]
        number = columns(arrays or [], m.count)[:, self.component]
        return np.asarray(self._finite_truth(m) & self._looks_so(number, m))

    def _finite_truth(self, m: Measurements) -> Array:
        truth = np.abs(m.reference.middle(self.what)[:, self.component])
        states = m.reference.states(self.what)[:, self.component]
        return np.asarray(((states == REGULAR) | (states == LIMIT)) & (truth <= m.fmt.max))

    def _looks_so(self, number: Array, m: Measurements) -> Array:
        if self.cause == NAN:
            return np.asarray(np.isnan(number))
        if self.cause == INFINITE:
            return np.asarray(np.isinf(number))
        assert self.cause == ZERO
        balls = m.reference.balls(self.what)[:, self.component]
        return np.asarray((number == 0) & np.array([not b.is_zero() for b in balls], bool))


def worst_failure(m: Measurements, rule: FloatRule) -> Failure | None:
    """The failure of the worst severity, at the plainest row that shows it when it is run alone."""
    graded = {mode: grades(m, mode, rule.who) for mode in m.floats}
    for severity in _ORDER:
        modes = [mode for mode, each in graded.items() if _rows(each, severity, rule.causes).size]
        for number, mode in enumerate(modes):
            row = _confirmed_row(m, rule, mode, severity)
            if row is not None:
                cause, component = str(graded[mode].cause[row]), int(graded[mode].component[row])
                fault = Fault(rule.who, mode, cause, severity, component)
                return _failure(m, rule, fault, row, modes[number:])
    return None


def _failure(
    m: Measurements, rule: FloatRule, fault: Fault, row: int, modes: Sequence[str]
) -> Failure:
    """The failure of a fault; an error that shows only op by op is a warning."""
    kind = Kind.VALUE_FLOATS if fault.what == VALUES else Kind.GRADIENT_FLOATS
    only_op_by_op = list(modes) == [OP_BY_OP] and fault.severity is Severity.ERROR
    return Failure(
        rule=rule.name,
        severity=Severity.WARNING if only_op_by_op else fault.severity,
        row=row,
        what=fault.what,
        component=fault.component,
        ground=Ground(kind, fault.cause),
        message=rule.message(fault.cause) + _where_nobody_goes(m, row),
        modes=tuple(modes),
        holds=fault.recurs,
        as_grave=fault.recurs_as_gravely,
        alone=Alone(row, fault.mode, fault.who),
    )


def _where_nobody_goes(m: Measurements, row: int) -> str:
    """Why a fault at this row is a note at most, in brackets; nothing where it is not."""
    if m.beyond[row]:
        return " (beyond --reach)"
    return " (where several arguments are tiny at once)" if tiny_at_once(m)[row] else ""


def _confirmed_row(m: Measurements, rule: FloatRule, mode: str, severity: Severity) -> int | None:
    """The plainest row of the gravest cause that shows the same when it is run alone."""
    graded = grades(m, mode, rule.who)
    rows = _rows(graded, severity, rule.causes)
    # What models meet comes first; beyond it a NaN is not graver than a tail within.
    met = ~unmet(m)[rows]
    rows = rows[met] if met.any() else rows
    for cause in rule.causes:
        for row in rows[graded.cause[rows] == cause][:_TRIES].tolist():
            if _by_coincidence(m, rule, cause, row, int(graded.component[row])):
                continue
            alone = grades(again(m, Alone(row, mode, rule.who)), mode, rule.who)
            if alone.severity[0] >= severity.rank and alone.cause[0] == cause:
                return int(row)
    return None


def _by_coincidence(m: Measurements, rule: FloatRule, cause: str, row: int, component: int) -> bool:
    """Is the truth a number here only because several arguments vanish at once?"""
    if cause == NAN and coincidental(m, row):
        return True
    endless = cause in (NAN, INFINITE) and rule.who != VALUE
    return endless and coincidental_slope(m, row, component)


def _rows(graded: Grades, severity: Severity, causes: Sequence[str]) -> Array:
    return np.array([r for r in graded.rows(severity) if graded.cause[r] in causes], int)
