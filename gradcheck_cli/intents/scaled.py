"""`expect(scaled=-1.0)`: the true gradient times a constant, as in gradient reversal."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from gradcheck_cli.intents.intent import at, formula, regular, shown
from gradcheck_cli.laws.law import Failure
from gradcheck_cli.measure.accuracy import GRADIENTS
from gradcheck_cli.measure.engine import Measurements


@dataclass(frozen=True, slots=True)
class Scaled:
    name: str = "scaled"
    answers: frozenset[str] = frozenset({"gradient-mismatch"})

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        """The constant is known as well as the dtype can hold it."""
        number = float(argument or "1")
        factor = arb(number, abs(number) * m.fmt.eps)
        gradients, truth = formula(m), m.reference.balls(GRADIENTS)
        for row, k in regular(m):
            if not gradients[row, k].overlaps(factor * truth[row, k]):
                got, true = shown(gradients[row, k]), shown(truth[row, k])
                return f"at {at(m, row)} the gradient is {got}, the truth {true}"
        return None

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return True


SCALED = Scaled()
