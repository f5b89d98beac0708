"""Where the truth is finite, so are the value and the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.judge.laws.floats import failures
from gradcheck_cli.judge.laws.law import Judgement, Reason, judged
from gradcheck_cli.measure.accuracy import INFINITE, NAN
from gradcheck_cli.measure.measurements import Measurements, Probe

_CAUSES = (NAN, INFINITE)
_NAMES = {NAN: "NaN", INFINITE: "infinite"}


@dataclass(frozen=True, slots=True)
class Finite:
    name: str = "finite"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return [Probe(i, BASE) for i in range(points)]

    def applicable(self, m: Measurements) -> Reason | None:
        return None

    def judge(self, m: Measurements) -> Judgement:
        found = [
            *failures(m, "value", RuleName.NON_FINITE_VALUE, _CAUSES, _message("value")),
            *failures(m, m.judged, RuleName.NON_FINITE_GRADIENT, _CAUSES, _message("gradient")),
        ]
        return judged(self.name, m.count, found)


def _message(what: str) -> Callable[[str, Severity], str]:
    def message(cause: str, severity: Severity) -> str:
        return f"the {what} is {_NAMES[cause]} where the truth is finite"

    return message


FINITE = Finite()
