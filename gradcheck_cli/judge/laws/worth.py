"""Does the rule earn its keep? Notes only: what autodiff through the primal would give instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.judge.laws.floats import cause_holds
from gradcheck_cli.judge.laws.law import NO_RULE, Judgement, Reason, judged
from gradcheck_cli.measure.accuracy import DIGITS, INFINITE, NAN, ZERO
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.grading import grades
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.run_alone import Alone, again

_GIVES = {NAN: "gives NaN", INFINITE: "is infinite", ZERO: "gives 0", DIGITS: "loses its digits"}


@dataclass(frozen=True, slots=True)
class Worth:
    name: str = "worth"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return [Probe(i, BASE) for i in range(points)]

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
        return judged(self.name, m.count, [_redundant()] if _never_better(m) else [])


def _repaired(m: Measurements) -> Failure | None:
    for mode in m.floats:
        custom, auto = grades(m, mode, "custom"), grades(m, mode, "auto")
        saved = (auto.severity >= Severity.WARNING.rank) & (custom.severity <= Severity.NOTE.rank)
        saved &= ~m.beyond
        saved &= ~comparison(m).differs.any(axis=1) if m.rule is not None else True
        for cause in (NAN, INFINITE, ZERO, DIGITS):
            rows = [int(r) for r in saved.nonzero()[0] if auto.cause[r] == cause]
            if not rows:
                continue
            alone = Alone(rows[0], mode, "auto")
            if grades(again(m, alone), mode, "auto").cause[0] == cause:
                component = int(auto.component[rows[0]])
                return Failure(
                    rule=RuleName.REPAIRED_AUTODIFF, severity=Severity.NOTE, row=rows[0], what=GRADIENTS,
                    component=component, ground=Ground(Kind.AUTODIFF_FLOATS, cause),
                    message=f"autodiff through the primal {_GIVES[cause]}, this rule repairs it",
                    modes=(mode,),
                    holds=cause_holds(mode, "auto", cause, component, Severity.WARNING),
                    alone=alone,
                )  # fmt: skip
    return None


def _never_better(m: Measurements) -> bool:
    if m.rule is not None and comparison(m).differs.any():
        return False
    return all(
        grades(m, mode, who).fine[~m.beyond].all()
        for mode in m.floats
        for who in ("value", "custom", "auto")
    )


def _redundant() -> Failure:
    return Failure(
        rule=RuleName.REDUNDANT_RULE, severity=Severity.NOTE, row=0, what=GRADIENTS, component=0, ground=Ground(Kind.REDUNDANT),
        message="autodiff through the primal is as good as this rule at every point that was tried",
        everywhere=True,
    )  # fmt: skip


WORTH = Worth()
