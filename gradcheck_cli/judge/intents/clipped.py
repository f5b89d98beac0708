"""`expect(clipped)`: the true gradient, made smaller where it is large; never larger, never turned, but by its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from flint import arb

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.judge.intents.intent import at, common_cells, formula, shown
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, component_name
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
            if any(ours.overlaps(arb(bound)) for bound in _bounds(m, row, k)):
                continue
            larger = abs(ours) > abs(true) * (1 + m.fmt.eps)
            turned = (ours > 0 and true < 0) or (ours < 0 and true > 0)
            if larger or turned:
                return f"at {at(m, row)} the gradient is {shown(ours)}, the truth {shown(true)}"
        return None

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        """Clipping is offered for a rule that is right where gradients are small, and wrong at more than single points."""
        if failure.rule == RuleName.NONLINEAR_COTANGENT or _where_it_is_large(m, failure):
            yield None

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return True


def _where_it_is_large(m: Measurements, failure: Failure) -> bool:
    """Do the rows at which the formula is the truth, and not 0, have smaller gradients than those at which it is not?"""
    facts = comparison(m)
    number, _ = component_name(m, GRADIENTS, failure.component)
    own = [component_name(m, GRADIENTS, k)[0] == number for k in range(facts.differs.shape[1])]
    sizes = m.reference.middle(GRADIENTS)[:, own]
    largest = np.abs(np.where(np.isfinite(sizes), sizes, 0.0)).max(axis=1, initial=0.0)
    wrong = facts.differs[facts.rows][:, own].any(axis=1)
    cut, kept = largest[facts.rows][wrong], largest[facts.rows][~wrong]
    kept = kept[kept > 0]
    few = len(cut) < _FEWEST or not len(kept)
    return not few and kept.min() <= cut.min() and kept.max() <= cut.max()


def _bounds(m: Measurements, row: int, k: int) -> Iterator[float]:
    """The numbers that the arguments give there, of either sign: they may be what is cut off at."""
    number, index = component_name(m, GRADIENTS, k)
    shape = m.subject.leaves[number].shape
    for other, leaf in enumerate(m.subject.leaves):
        value = m.points[other][row]
        if other != number and leaf.shape in ((), shape):
            bound = float(value[index] if leaf.shape == shape else value)
            yield from (bound, -bound)
    for _, fixed in m.subject.signature.arguments:
        if isinstance(fixed, Fixed) and isinstance(fixed.value, float):
            yield from (fixed.value, -fixed.value)


CLIPPED = Clipped()
