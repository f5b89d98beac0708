"""Arguments of which the program has a value and no derivative, at every point that was tried or in a region.

The root of what is always zero, as the distance of a point from itself, makes autodiff NaN everywhere, though
the function is smooth. Nothing was compared then; the integral of the rule is, with the value's own change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.contract.limits import ORDINARY, half_of_the_digits
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.lattice import generic
from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.failure import Failure, Ground, Kind, component_name
from gradcheck_cli.measure.formula_gap import Comparison
from gradcheck_cli.measure.integral import Opinion, iterates, third_opinion
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, OUTSIDE, REGULAR
from gradcheck_cli.measure.valued import valued

_MOST_ROWS = 3
_MOST_COMPONENTS = 6
_WRONG = "the formula is wrong: the function does not change as it says (autodiff has no derivative there)"


@dataclass(frozen=True, slots=True)
class Underivable:
    """One argument's components; what the integral says of the rule, and where."""

    name: str
    opinion: Opinion
    row: int
    component: int

    @property
    def is_wrong(self) -> bool:
        return self.opinion is Opinion.WRONG

    @property
    def is_right(self) -> bool:
        return self.opinion is Opinion.RIGHT

    def failure(self, several: bool) -> Failure:
        """The failure that a wrong rule is."""
        name = self.name if several else None
        message = _WRONG if name is None else f"d/d{name}: {_WRONG}"
        return Failure(
            RuleName.GRADIENT_MISMATCH, Severity.ERROR, self.row, GRADIENTS, self.component,
            Ground(Kind.FORMULA, name), message, everywhere=True,
        )  # fmt: skip


def underivable(m: Measurements, facts: Comparison) -> Iterator[Underivable]:
    """The arguments of which nothing was compared, though function and rule have numbers; and what is wrong in a region."""
    if m.rule is None or m.dear or not len(facts.rows):
        return
    states = m.reference.states(GRADIENTS)
    start = 0
    for _, elements in m.components(GRADIENTS):
        part = slice(start, start + len(elements))
        start = part.stop
        judged = states[facts.rows, part]
        known = np.isin(judged, (REGULAR, LIMIT)).any() or facts.differs[:, part].any()
        rows = facts.rows[valued(m, part)[facts.rows]]
        if known:  # somewhere; where no number is special, autodiff should have one, too
            rows = rows[(states[rows, part] == OUTSIDE).all(axis=1) & generic(m.points)[rows]]
            if iterates(m):  # what has not settled is outside of the domain for that reason
                continue
        if not len(elements) or not len(rows):
            continue
        leaf, _ = component_name(m, GRADIENTS, part.start)
        judged_here = _judged(m, m.subject.leaves[leaf].path, part, _ordinary(m, rows.tolist()))
        if not known or judged_here.opinion is Opinion.WRONG:
            yield judged_here


def _ordinary(m: Measurements, rows: Sequence[int]) -> list[int]:
    """Rows of ordinary numbers first, of which no two are alike."""
    low, high = ORDINARY.value
    flat = columns(m.points, m.count)
    apart = [len(np.unique(flat[row])) for row in rows]
    size = np.abs(flat).max(axis=1)
    order = sorted(
        range(len(rows)), key=lambda i: (not low <= size[rows[i]] <= high, -apart[i], rows[i])
    )
    return [rows[i] for i in order[:_MOST_ROWS]]


def _judged(m: Measurements, name: str, part: slice, rows: Sequence[int]) -> Underivable:
    """The gravest opinion at a few components of a few rows."""
    places = np.unique(np.linspace(part.start, part.stop - 1, _MOST_COMPONENTS).astype(int))
    asked: list[Underivable] = []
    for row in rows:
        for component in places.tolist():
            asked.append(Underivable(name, _opinion(m, row, component), row, component))
    for opinion in (Opinion.WRONG, Opinion.STEP, Opinion.RIGHT):  # where one is open, others decide
        for each in asked:
            if each.opinion is opinion:
                return each
    return asked[0]


def _opinion(m: Measurements, row: int, component: int) -> Opinion:
    """The third opinion; wrong on large scales alone is open, for the value may jump there."""
    third = third_opinion(m, row, slice(component, component + 1))
    if third is None or not third.residuals:
        return Opinion.OPEN
    near = third.residuals[0] > half_of_the_digits(m.fmt.eps) * third.changes[0]
    return Opinion.OPEN if third.opinion is Opinion.WRONG and not near else third.opinion
