"""Where the truth is finite, so are the value and the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.floats import FloatRule, worst_failure
from gradcheck_cli.judge.laws.law import Judgement, Reason, base_probes, judged
from gradcheck_cli.measure.accuracy import INFINITE, NAN
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.states import KINK
from gradcheck_cli.reals.facts import OPEN_LOOPS
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
        message = _message("gradient", cut_off=_may_go_on(m))
        gradient = FloatRule(RuleName.NON_FINITE_GRADIENT, m.judged, _CAUSES, message)
        found = (worst_failure(m, value), worst_failure(m, gradient), _endless(m))
        return judged(self.name, m.count, [*filter(None, found)])


def _endless(m: Measurements) -> Failure | None:
    """An iteration that goes on for ever at some inputs, where its limit is a number: a note."""
    within = [row for row in m.endless if not m.beyond[row]]
    if not within:
        return None
    return Failure(
        rule=RuleName.NON_FINITE_VALUE, severity=Severity.NOTE, row=within[0], what=VALUES, component=0,
        ground=Ground(Kind.VALUE_FLOATS, "endless"),
        message=f"the loop does not end in {m.fmt.name}: it was cut off, and has a limit over the reals",
        help="end it after a number of trips, or with a tolerance that is above the dtype's resolution",
    )  # fmt: skip


def _may_go_on(m: Measurements) -> bool:
    """Has the rule a loop that waits for a float? It is cut off in the end, with NaN for its result."""
    rule = m.subject.traces().rule
    return rule is not None and bool(rule.primitives() & OPEN_LOOPS)


def _message(what: str, *, cut_off: bool = False) -> Callable[[str, int], str]:
    def message(cause: str, state: int) -> str:
        where = "at a kink of the function" if state == KINK else "where the truth is finite"
        loop = ", or its loop never ends and was cut off," if cut_off and cause == NAN else ""
        return f"the {what} is {_NAMES[cause]}{loop} {where}"

    return message


FINITE = Finite()
