"""What the laws about floats share: grades by mode become failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.measure.accuracy import DIGITS, INFINITE, NAN, ZERO, Grades
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.failure import Failure, Ground, Holds, Kind
from gradcheck_cli.measure.grading import grades
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.run_alone import Alone, again
from gradcheck_cli.measure.states import LIMIT, REGULAR
from gradcheck_cli.subject.results import OP_BY_OP

Array = np.ndarray[Any, Any]

# Rows that are run again alone before a fault counts as one of the batch only.
_TRIES = 3
_KINDS = {VALUES: Kind.VALUE_FLOATS, GRADIENTS: Kind.GRADIENT_FLOATS}
_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def failures(
    m: Measurements,
    who: str,
    rule: RuleName,
    causes: Sequence[str],
    message: Callable[[str, Severity], str],
) -> Iterator[Failure]:
    """The worst severity of these causes, with the plainest row as witness.

    A fault under jit counts as it is; one that shows only op by op is a warning.
    """
    by_mode = {mode: grades(m, mode, who) for mode in m.floats}
    what = VALUES if who == "value" else GRADIENTS
    for severity in _ORDER:
        modes = [mode for mode, graded in by_mode.items() if _rows(graded, severity, causes).size]
        while modes:
            mode, graded = modes[0], by_mode[modes[0]]
            row = confirmed(m, who, mode, graded, severity, causes)
            if row is not None:
                break
            modes = modes[1:]
        else:
            continue
        cause, component = str(graded.cause[row]), int(graded.component[row])
        shown = Severity.WARNING if modes == [OP_BY_OP] and severity is Severity.ERROR else severity
        yield Failure(
            rule=rule,
            severity=shown,
            row=row,
            what=what,
            component=component,
            ground=Ground(_KINDS[what], cause),
            message=message(cause, shown) + (" (beyond --reach)" if m.beyond[row] else ""),
            modes=tuple(modes),
            holds=cause_holds(mode, who, cause, component, severity),
            as_grave=_as_grave(mode, who, cause, severity, component),
            alone=Alone(row, mode, who),
        )
        return


def confirmed(
    m: Measurements, who: str, mode: str, graded: Grades, severity: Severity, causes: Sequence[str]
) -> int | None:
    """The plainest row of the gravest cause that shows the same when it is run alone."""
    rows = _rows(graded, severity, causes)
    # What models meet comes first; beyond it a NaN is not graver than a tail within.
    rows = rows[~m.beyond[rows]] if (~m.beyond[rows]).any() else rows
    for cause in causes:
        for row in rows[graded.cause[rows] == cause][:_TRIES].tolist():
            if _as_grave(mode, who, cause, severity)(again(m, Alone(row, mode, who)))[0]:
                return int(row)
    return None


def _rows(graded: Grades, severity: Severity, causes: Sequence[str]) -> Array:
    return np.array([r for r in graded.rows(severity) if graded.cause[r] in causes], int)


def _as_grave(
    mode: str, who: str, cause: str, severity: Severity, component: int | None = None
) -> Holds:
    """Graded as severely, for the same cause (and component): not only true, but mattering."""

    def holds(m: Measurements) -> Array:
        graded = grades(m, mode, who)
        same = (graded.severity >= severity.rank) & (graded.cause == cause)
        return np.asarray(same if component is None else same & (graded.component == component))

    return holds


def cause_holds(mode: str, who: str, cause: str, component: int, severity: Severity) -> Holds:
    """Is the same true at other points? NaN, inf and zero are seen without forgiveness and scale."""

    def holds(m: Measurements) -> Array:
        if cause == DIGITS:
            return np.asarray(grades(m, mode, who).severity >= severity.rank)
        floats = m.floats[mode]
        arrays = {"value": floats.rule_value, "custom": floats.custom, "auto": floats.auto}[who]
        got = columns(arrays or [], m.count)[:, component]
        what = VALUES if who == "value" else GRADIENTS
        truth = np.abs(m.reference.middle(what)[:, component])
        states = m.reference.states(what)[:, component]
        known = ((states == REGULAR) | (states == LIMIT)) & (truth <= m.fmt.max)
        balls = m.reference.balls(what)[:, component]
        seen = {
            NAN: np.isnan(got),
            INFINITE: np.isinf(got),
            ZERO: (got == 0) & np.array([not ball.is_zero() for ball in balls], bool),
        }[cause]
        return np.asarray(known & seen)

    return holds
