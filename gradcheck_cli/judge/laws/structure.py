"""The rule gives one gradient for each differentiable argument, with its shape.

Most frameworks refuse other shapes while they trace the rule; this law judges what they let pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import NO_RULE, Judgement, Reason, judged
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements, Probe

STRUCTURE_LAW = "structure"


@dataclass(frozen=True, slots=True)
class Structure:
    name: str = STRUCTURE_LAW

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return []

    def applicable(self, m: Measurements) -> Reason | None:
        return None if m.ruled else NO_RULE

    def judge(self, m: Measurements) -> Judgement:
        program = m.subject.traces().rule
        if program is None:  # the framework's own checks have passed
            return judged(self.name, m.count, [])
        if m.in_part:  # only those of the right shapes are judged in part
            return judged(self.name, m.count, [])
        expected = [*m.subject.outputs, *(leaf.shape for leaf in m.subject.leaves)]
        got = [aval.shape for aval in program.out_avals]
        if got == expected:
            return judged(self.name, m.count, [])
        failure = Failure(
            RuleName.GRADIENT_STRUCTURE, Severity.ERROR, 0, GRADIENTS, 0, Ground(Kind.STRUCTURE),
            f"the rule gives arrays of shapes {got}, expected are {expected}", everywhere=True,
        )  # fmt: skip
        return judged(self.name, m.count, [failure])


STRUCTURE = Structure()
