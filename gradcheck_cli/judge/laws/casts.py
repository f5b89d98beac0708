"""A note where the primal computes in a narrower dtype than its inputs have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import Judgement, Reason, judged
from gradcheck_cli.measure.casts import narrowest
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements, Probe


@dataclass(frozen=True, slots=True)
class Casts:
    name: str = "casts"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return []

    def applicable(self, m: Measurements) -> Reason | None:
        return None

    def judge(self, m: Measurements) -> Judgement:
        primal = m.subject.traces().primal
        narrow = None if primal is None else narrowest(primal, m.fmt)
        if narrow is None:
            return judged(self.name, m.count, [])
        message = (
            f"computed in {narrow.name}: {narrow.digits} of {m.fmt.digits} bits, and judged by that"
        )
        failure = Failure(
            RuleName.NARROWED_COMPUTATION,
            Severity.NOTE,
            0,
            VALUES,
            0,
            Ground(Kind.CASTS),
            message,
            everywhere=True,
        )
        return judged(self.name, m.count, [failure])


CASTS = Casts()
