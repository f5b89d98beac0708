"""`expect(surrogate)`: the primal is a step function, and the rule a smooth stand-in for its slope."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import at, common_cells, shown
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.measurements import Measurements


@dataclass(frozen=True, slots=True)
class Surrogate:
    name: str = "surrogate"
    answers: frozenset[RuleName] = frozenset({RuleName.UNDECLARED_SURROGATE})

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        """Wherever formula and truth differ, the truth is zero."""
        facts, truth = comparison(m), m.reference.balls(GRADIENTS)
        for row, k in common_cells(m):
            if facts.differs[row, k] and not truth[row, k].contains(0):
                return (
                    f"at {at(m, row)} the derivative of the primal is {shown(truth[row, k])}, not 0"
                )
        return None

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        yield from ()  # the finding itself says so

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return True


SURROGATE = Surrogate()
