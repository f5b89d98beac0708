"""`expect(subgradient)`: another convention at kinks and at single points, the truth elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import at, common_cells
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR


@dataclass(frozen=True, slots=True)
class Subgradient:
    name: str = "subgradient"
    answers: frozenset[RuleName] = frozenset(
        {RuleName.GRADIENT_MISMATCH, RuleName.SAFE_AT_SINGULARITY}
    )

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        facts, states = comparison(m), m.reference.states(GRADIENTS)
        for row, k in common_cells(m):
            if facts.differs[row, k] and states[row, k] == REGULAR:
                return (
                    f"at {at(m, row)} the primal has a derivative, and the rule gives another one"
                )
        return None

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        yield from ()  # a wrong number at a point is mostly a mask too many

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return True


SUBGRADIENT = Subgradient()
