"""Value and gradient keep the digits that their dtype can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gradcheck_cli.contract.limits import SPARE_BITS
from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.floats import FloatRule, worst_failure
from gradcheck_cli.judge.laws.law import Judgement, Reason, base_probes, judged
from gradcheck_cli.measure.accuracy import DIGITS, ZERO
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.formula_gap import comparison
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
        worst = filter(None, (worst_failure(m, value), worst_failure(m, gradient)))
        return judged(self.name, m.count, [_for_a_stand_in(failure, m) for failure in worst])


def _for_a_stand_in(failure: Failure, m: Measurements) -> Failure:
    """A note where the truth is zero everywhere: what a surrogate is near its own edge, no derivative says."""
    if failure.what != GRADIENTS or m.rule is None:
        return failure
    stands_in = comparison(m).zero_truth[failure.component]
    return replace(failure, severity=Severity.NOTE) if stands_in else failure


def _message(what: str) -> Callable[[str, int], str]:
    def message(cause: str, state: int) -> str:
        if cause == ZERO:
            return f"the {what} is exactly 0 where the truth is not"
        return f"the {what} loses its digits"

    return message


PRECISION = Precision()
