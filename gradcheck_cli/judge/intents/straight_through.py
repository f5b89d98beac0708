"""`expect(straight-through)`: the cotangent passes as it is, as if the function were the identity.

Or each rounding in it were: a quantizer with a learned step differentiates all else. Or each bound, too: `safe_tanh`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flint import arb

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import (
    argument_of,
    at,
    formula,
    formula_cells,
    gets_nothing,
    shown,
)
from gradcheck_cli.measure.ball_truth import Ask, Reals, Truth
from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.handed_on import origins
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.passed_steps import with_passed_steps

_FEWEST = 8  # points that tell of an element
_ALIKE = 6  # digits in which two slopes are one


@dataclass(frozen=True, slots=True)
class StraightThrough:
    """The cotangent as the gradient of the first argument, or of the one that is named."""

    name: str = "straight-through"
    answers: frozenset[RuleName] = frozenset(
        {RuleName.UNDECLARED_SURROGATE, RuleName.GRADIENT_MISMATCH, RuleName.INCONCLUSIVE_GRADIENT}
    )

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        name = self._argument(m, argument)
        passes = passes_steps(m, name) or passes_bounds(m, name)
        return None if passes else self._not_the_identity(m, name)

    def _not_the_identity(self, m: Measurements, name: str) -> str | None:
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
        if name == self._argument(m, argument) or gets_nothing(m, name):
            return True
        return argument is None and (passes_steps(m, name) or passes_bounds(m, name))

    def _argument(self, m: Measurements, argument: str | None) -> str:
        return argument or m.subject.leaves[0].path


def passes_steps(m: Measurements, argument: str) -> bool:
    """Is the argument's gradient that of the function with its roundings taken for the identity?

    It may stop some of them, as a window does beyond which nothing passes: each is passed, or it is a constant.
    """
    return _is_of(_with_passed_steps(m), m, argument)


def passes_in_part(m: Measurements, argument: str) -> tuple[int, int] | None:
    """A cell of an element at which the argument's gradient is nowhere what that of others is everywhere: with steps passed.

    There the function has a slope beside its steps, and the rule no fixed multiple of it: that would be a rate.
    """
    truth = _with_passed_steps(m)
    if truth is None:
        return None
    ours, meant = formula(m), columns(truth.gradients, m.count)
    cells: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for cell in _apart(truth, m, argument):
        if ours[cell] != 0 and meant[cell] != 0:  # a window lets nothing through
            cells[cell[1]].append(cell)
    told = [each for each in cells.values() if len(each) >= _FEWEST]
    passed = [[bool(ours[cell].overlaps(meant[cell])) for cell in each] for each in told]
    if not any(map(all, passed)):
        return None
    weights = columns(m.cotangents, m.count)
    first = next(k for _, k in formula_cells(m) if argument_of(m, k) == argument)
    for each, right in zip(told, passed, strict=True):
        slopes = [
            meant[r, k] / weights[r, k - first] for r, k in each
            if k - first < weights.shape[1] and weights[r, k - first]
        ]  # fmt: skip
        varied = _varies(slopes) and _varies([ours[cell] / meant[cell] for cell in each])
        if varied and not any(right):
            return each[0]
    return None


def _varies(numbers: Sequence[arb]) -> bool:
    """Are there several numbers among these, and no rate of a few?"""
    return len({f"{float(number):.{_ALIKE}g}" for number in numbers}) >= _FEWEST


def passes_bounds(m: Measurements, argument: str) -> bool:
    """Is it that of the function with its bounds taken for the identity, too?"""
    return _is_of(_with_passed_bounds(m), m, argument)


def _is_of(truth: Truth | None, m: Measurements, argument: str) -> bool:
    """Is the argument's gradient that of such a function, wherever it is not that of the function itself?"""
    if truth is None:
        return False
    ours, meant = formula(m), columns(truth.gradients, m.count)
    apart = list(_apart(truth, m, argument))
    return bool(apart) and all(ours[cell].overlaps(meant[cell]) for cell in apart)


def _apart(truth: Truth, m: Measurements, argument: str) -> Iterator[tuple[int, int]]:
    """The cells of the argument where its gradient is not the function's own, and such a function's is known."""
    states, ours = columns(truth.gradient_states, m.count), formula(m)
    autodiff = m.reference.balls(GRADIENTS)
    for cell in formula_cells(m):
        known = argument_of(m, cell[1]) == argument and states[cell] == REGULAR
        if known and not ours[cell].overlaps(autodiff[cell]):  # zero is zero either way
            yield cell


@derived
def _with_passed_steps(m: Measurements) -> Truth | None:
    """The truth of such a function; None if it takes no step, or has no program over the reals."""
    return _passed(m, bounds=False)


@derived
def _with_passed_bounds(m: Measurements) -> Truth | None:
    return _passed(m, bounds=True)


def _passed(m: Measurements, bounds: bool) -> Truth | None:
    primal = m.subject.traces().primal
    if primal is None or m.in_part or m.dear:
        return None
    passed = with_passed_steps(primal, len(m.subject.leaves), len(m.subject.outputs), bounds)
    if passed is None:
        return None
    ask = Ask(m.reference.goal, ties=True, nudged=False)
    return Reals(passed).evaluate(m.points, m.cotangents, ask)


STRAIGHT_THROUGH = StraightThrough()
