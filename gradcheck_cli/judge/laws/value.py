"""The value that the rule's forward pass returns is the primal's, over the reals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import Judgement, Reason, base_probes, judged, over_the_reals
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.formula_gap import value_differs
from gradcheck_cli.measure.measurements import Measurements, Probe


@dataclass(frozen=True, slots=True)
class Value:
    name: str = "value"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return base_probes(points)

    def applicable(self, m: Measurements) -> Reason | None:
        return over_the_reals(m)

    def judge(self, m: Measurements) -> Judgement:
        rows, place = m.base_rows, value_differs(m)
        if place is None:
            return judged(self.name, len(rows), [])
        failure = Failure(
            RuleName.VALUE_MISMATCH, Severity.ERROR, place[0], VALUES, place[1], Ground(Kind.VALUE),
            "the rule's forward pass returns a different value than the function itself",
        )  # fmt: skip
        return judged(self.name, len(rows), [failure])


VALUE = Value()
