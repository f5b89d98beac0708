"""A rule runs in every dtype that its function takes, from float64 to float16.

Only that it runs is asked, and that the framework accepts its gradients: a run with `--dtype` tells
how precise it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import NO_RULE, Judgement, Reason, judged
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements, Probe

_LADDER = ("float64", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Dtypes:
    name: str = "dtypes"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return []

    def applicable(self, m: Measurements) -> Reason | None:
        if not m.subject.has_rule:
            return NO_RULE
        return Reason(Outcome.NOT_COVERED, "a call is too dear") if m.dear or m.in_part else None

    def judge(self, m: Measurements) -> Judgement:
        others = [dtype for dtype in _LADDER if dtype != m.subject.dtype]
        refusals = {dtype: m.subject.refusal(dtype) for dtype in others}
        messages = {dtype: error.message for dtype, error in refusals.items() if error is not None}
        if not messages:
            return judged(self.name, 1, [])
        names, message = " and ".join(messages), next(iter(messages.values()))
        failure = Failure(
            RuleName.GRADIENT_STRUCTURE, Severity.NOTE, 0, GRADIENTS, 0, Ground(Kind.DTYPES),
            f"in {names}, the function runs and its rule raises {message}", everywhere=True,
        )  # fmt: skip
        return judged(self.name, 1, [failure])


DTYPES = Dtypes()
