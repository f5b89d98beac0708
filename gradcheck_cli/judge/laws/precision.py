"""Value and gradient keep the digits that their dtype can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.limits import SPARE_BITS
from gradcheck_cli.contract.report import Outcome
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.floats import FloatRule, worst_failure
from gradcheck_cli.judge.laws.law import Judgement, Reason, base_probes, judged
from gradcheck_cli.measure.accuracy import DIGITS, ZERO
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.subject.results import VALUE

_CAUSES = (ZERO, DIGITS)


@dataclass(frozen=True, slots=True)
class Precision:
    name: str = "precision"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return base_probes(points)

    def applicable(self, m: Measurements) -> Reason | None:
        if not m.sources.primal.judges_digits:
            text = f"{m.sources.reason}, and differences cannot judge digits"
            return Reason(Outcome.NOT_COVERED, text)
        digits = m.sources.digits
        if digits is not None and digits < m.fmt.digits + SPARE_BITS.value:
            text = f"a truth of {digits} bits cannot judge the digits of {m.fmt.name}"
            return Reason(Outcome.NOT_COVERED, f"{m.sources.reason}, and {text}")
        return None

    def judge(self, m: Measurements) -> Judgement:
        value = FloatRule(RuleName.IMPRECISE_VALUE, VALUE, _CAUSES, _message("value"))
        gradient = FloatRule(RuleName.IMPRECISE_GRADIENT, m.judged, _CAUSES, _message("gradient"))
        worst = (worst_failure(m, value), worst_failure(m, gradient))
        return judged(self.name, m.count, [*filter(None, worst)])


def _message(what: str) -> Callable[[str], str]:
    def message(cause: str) -> str:
        if cause == ZERO:
            return f"the {what} is exactly 0 where the truth is not"
        return f"the {what} loses its digits"

    return message


PRECISION = Precision()
