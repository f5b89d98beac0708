"""A note where autodiff through the primal is worse than the rule, or nowhere worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.fault import Fault
from gradcheck_cli.judge.laws.law import NO_RULE, Judgement, Reason, base_probes, judged
from gradcheck_cli.measure.accuracy import DIGITS, INFINITE, NAN, ZERO, Grades
from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.grading import grades
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.run_alone import Alone, again
from gradcheck_cli.subject.results import AUTO, CUSTOM, VALUE

Array = np.ndarray[Any, Any]

_GIVES = {NAN: "gives NaN", INFINITE: "is infinite", ZERO: "gives 0", DIGITS: "loses its digits"}


@dataclass(frozen=True, slots=True)
class Worth:
    name: str = "worth"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return base_probes(points)

    def applicable(self, m: Measurements) -> Reason | None:
        floats = m.floats[m.mode]
        if floats.custom is None:
            return NO_RULE
        if floats.auto is None:
            return Reason(Outcome.NOT_APPLICABLE, "autodiff does not go through the primal")
        return None

    def judge(self, m: Measurements) -> Judgement:
        repaired = _repaired(m)
        if repaired is not None:
            return judged(self.name, m.count, [repaired])
        return judged(self.name, m.count, [_redundant()] if _never_better(m) and not m.subject.kernels else [])  # fmt: skip


def _repaired(m: Measurements) -> Failure | None:
    """The gravest fault of autodiff that the rule does not have, confirmed by a run alone."""
    for mode in m.floats:
        auto = grades(m, mode, AUTO)
        saved = _saved_rows(m, mode)
        for cause in (NAN, INFINITE, ZERO, DIGITS):
            row = next((int(r) for r in saved if auto.cause[r] == cause), None)
            if row is None:
                continue
            alone = Alone(row, mode, AUTO)
            if grades(again(m, alone), mode, AUTO).cause[0] == cause:
                component = int(auto.component[row])
                return _repair(Fault(AUTO, mode, cause, Severity.WARNING, component), alone)
    return None


def _saved_rows(m: Measurements, mode: str) -> Array:
    """Rows where autodiff is bad and the rule is not."""
    custom, auto = grades(m, mode, CUSTOM), grades(m, mode, AUTO)
    saved = (auto.severity >= Severity.WARNING.rank) & _has_numbers(custom) & ~m.beyond
    saved &= ~comparison(m).differs.any(axis=1) if m.rule is not None else True
    return np.flatnonzero(saved)


def _has_numbers(graded: Grades) -> Array:
    """Rows with no more than a note, and not for want of a number: a NaN at a kink may be one."""
    none = np.isin(graded.cause, (NAN, INFINITE))
    return np.asarray((graded.severity <= Severity.NOTE.rank) & ~none)


def _repair(fault: Fault, alone: Alone) -> Failure:
    def holds(m: Measurements) -> Array:
        """Rows where autodiff has the fault, and the rule none."""
        return np.asarray(fault.recurs(m) & _has_numbers(grades(m, fault.mode, CUSTOM)))

    return Failure(
        rule=RuleName.REPAIRED_AUTODIFF, severity=Severity.NOTE, row=alone.row, what=GRADIENTS,
        component=fault.component, ground=Ground(Kind.AUTODIFF_FLOATS, fault.cause),
        message=f"autodiff through the primal {_GIVES[fault.cause]}, this rule repairs it",
        modes=(fault.mode,), holds=holds, alone=alone,
    )  # fmt: skip


def _never_better(m: Measurements) -> bool:
    formula = comparison(m) if m.rule is not None else None
    if formula is not None and (formula.differs.any() or not formula.compared):
        return False
    if any(_only_the_rule_has_numbers(m, mode) for mode in m.floats):
        return False
    return all(
        grades(m, mode, who).fine[~m.beyond].all()
        for mode in m.floats
        for who in (VALUE, CUSTOM, AUTO)
    )


def _only_the_rule_has_numbers(m: Measurements, mode: str) -> bool:
    """Is autodiff NaN somewhere, and the rule not? So it may be where no truth is known."""
    custom, auto = m.floats[mode].custom, m.floats[mode].auto
    if custom is None or auto is None:
        return False
    ours, theirs = (columns(arrays, m.count)[~m.beyond] for arrays in (custom, auto))
    return bool((np.isnan(theirs) & np.isfinite(ours)).any())


def _redundant() -> Failure:
    return Failure(
        rule=RuleName.REDUNDANT_RULE, severity=Severity.NOTE, row=0, what=GRADIENTS, component=0,
        ground=Ground(Kind.REDUNDANT),
        message="autodiff through the primal is as good as this rule at every point that was tried",
        everywhere=True,
    )  # fmt: skip


WORTH = Worth()
