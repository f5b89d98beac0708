"""`expect(clipped)`: the true gradient, made smaller where it is large; never larger, never turned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import at, common_cells, formula, shown
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.measurements import Measurements

_FEWEST = 3


@dataclass(frozen=True, slots=True)
class Clipped:
    name: str = "clipped"
    answers: frozenset[RuleName] = frozenset(
        {RuleName.GRADIENT_MISMATCH, RuleName.NONLINEAR_COTANGENT}
    )

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        gradients, truth = formula(m), m.reference.balls(GRADIENTS)
        for row, k in common_cells(m):
            ours, true = gradients[row, k], truth[row, k]
            larger = abs(ours) > abs(true) * (1 + m.fmt.eps)
            turned = (ours > 0 and true < 0) or (ours < 0 and true > 0)
            if larger or turned:
                return f"at {at(m, row)} the gradient is {shown(ours)}, the truth {shown(true)}"
        return None

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        """Clipping is offered for a rule that is right somewhere, and wrong at more than single points."""
        facts = comparison(m)
        wrong = int(facts.differs[facts.rows].any(axis=1).sum())
        if failure.rule == RuleName.NONLINEAR_COTANGENT or _FEWEST <= wrong < len(facts.rows):
            yield None

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return True


CLIPPED = Clipped()
