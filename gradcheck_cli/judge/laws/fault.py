"""A bad float: where else it is as bad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.measure.accuracy import DIGITS, INFINITE, NAN, ZERO
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.grading import grades
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, REGULAR
from gradcheck_cli.subject.results import AUTO, CUSTOM, VALUE

Array = np.ndarray[Any, Any]


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

    def is_healthy(self, m: Measurements) -> Array:
        """Rows where the truth is a number and so is the float, or the truth is beyond the range."""
        return np.asarray(self._has_truth(m) & ~self.recurs(m))

    def _finite_truth(self, m: Measurements) -> Array:
        truth = np.abs(m.reference.middle(self.what)[:, self.component])
        return np.asarray(self._has_truth(m) & (truth <= m.fmt.max))

    def _has_truth(self, m: Measurements) -> Array:
        states = m.reference.states(self.what)[:, self.component]
        return np.asarray((states == REGULAR) | (states == LIMIT))

    def _looks_so(self, number: Array, m: Measurements) -> Array:
        if self.cause == NAN:
            return np.asarray(np.isnan(number))
        if self.cause == INFINITE:
            return np.asarray(np.isinf(number))
        assert self.cause == ZERO
        balls = m.reference.balls(self.what)[:, self.component]
        return np.asarray((number == 0) & np.array([not b.is_zero() for b in balls], bool))


def fault_at(m: Measurements, who: str, mode: str, severity: Severity, row: int) -> Fault:
    """The fault that the worst component of a row has."""
    graded = grades(m, mode, who)
    return Fault(who, mode, str(graded.cause[row]), severity, int(graded.component[row]))
