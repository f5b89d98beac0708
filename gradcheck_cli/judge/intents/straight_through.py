"""`expect(straight-through)`: the cotangent passes as it is, as if the function were the identity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import (
    argument_of,
    at,
    formula,
    formula_cells,
    gets_nothing,
    shown,
)
from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.handed_on import origins
from gradcheck_cli.measure.measurements import Measurements


@dataclass(frozen=True, slots=True)
class StraightThrough:
    """The cotangent as the gradient of the first argument, or of the one that is named."""

    name: str = "straight-through"
    answers: frozenset[RuleName] = frozenset(
        {RuleName.UNDECLARED_SURROGATE, RuleName.GRADIENT_MISMATCH, RuleName.INCONCLUSIVE_GRADIENT}
    )

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        name = self._argument(m, argument)
        gradients, weights = formula(m), columns(m.cotangents, m.count)
        first: int | None = None
        for row, k in formula_cells(m):
            if argument_of(m, k) != name:
                continue
            first = k if first is None else first
            if k - first >= weights.shape[1]:
                return f"`{name}` has more elements than the output"
            expected = float(weights[row, k - first])
            if not gradients[row, k].contains(expected):
                gradient = shown(gradients[row, k])
                return f"at {at(m, row)} the cotangent is {expected:g} and the gradient {gradient}"
        return None if first is not None else f"there is no argument `{name}`"

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        if origins(m) is not None:  # what only moves its input has a transpose
            return
        first = argument_of(m, failure.component)
        yield None if first == m.subject.leaves[0].path else first

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        """Its own argument, and those that get nothing: an identity does not hang on them."""
        name = argument_of(m, failure.component)
        return name == self._argument(m, argument) or gets_nothing(m, name)

    def _argument(self, m: Measurements, argument: str | None) -> str:
        return argument or m.subject.leaves[0].path


STRAIGHT_THROUGH = StraightThrough()
