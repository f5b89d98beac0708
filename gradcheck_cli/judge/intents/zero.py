"""`expect(zero: alpha)`: no gradient for an argument that is not to be learned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import argument_of, at, formula, formula_cells, shown
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements


@dataclass(frozen=True, slots=True)
class Zero:
    name: str = "zero"
    answers: frozenset[RuleName] = frozenset({RuleName.GRADIENT_MISMATCH})

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        gradients = formula(m)
        there = False
        for row, k in formula_cells(m):
            if argument_of(m, k) != argument:
                continue
            there = True
            if gradients[row, k] != 0:
                return f"at {at(m, row)} the gradient of {argument} is {shown(gradients[row, k])}"
        return None if there else f"there is no argument `{argument}` that is differentiated"

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        yield argument_of(m, failure.component)

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return argument_of(m, failure.component) == argument


ZERO = Zero()
