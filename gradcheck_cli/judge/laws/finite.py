"""Where the truth is finite, so are the value and the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.floats import FloatRule, worst_failure
from gradcheck_cli.judge.laws.law import Judgement, Reason, base_probes, judged
from gradcheck_cli.measure.accuracy import INFINITE, NAN
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.subject.results import VALUE

_CAUSES = (NAN, INFINITE)
_NAMES = {NAN: "NaN", INFINITE: "infinite"}


@dataclass(frozen=True, slots=True)
class Finite:
    name: str = "finite"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return base_probes(points)

    def applicable(self, m: Measurements) -> Reason | None:
        return None

    def judge(self, m: Measurements) -> Judgement:
        value = FloatRule(RuleName.NON_FINITE_VALUE, VALUE, _CAUSES, _message("value"))
        gradient = FloatRule(RuleName.NON_FINITE_GRADIENT, m.judged, _CAUSES, _message("gradient"))
        worst = (worst_failure(m, value), worst_failure(m, gradient))
        return judged(self.name, m.count, [*filter(None, worst)])


def _message(what: str) -> Callable[[str], str]:
    return lambda cause: f"the {what} is {_NAMES[cause]} where the truth is finite"


FINITE = Finite()
