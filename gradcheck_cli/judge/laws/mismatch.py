"""What a formula is that differs from the truth in one argument: wrong, or an approximation, …

Cheap explanations come first; the third opinion, the integral of the rule, comes last. It may
even find that the formula is right, and that autodiff through the primal is not (SEMANTICS F).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import (
    EVERYWHERE,
    FORMULA_EPS,
    OPINIONS,
    ORDINARY,
    half_of_the_digits,
)
from gradcheck_cli.judge.diagnose.constant_factor import describe_factor, leaves_out_data
from gradcheck_cli.judge.diagnose.explain import explain
from gradcheck_cli.judge.laws.meant_rows import meant_rows
from gradcheck_cli.judge.laws.reported_kinds import ERRORS, REPORTED
from gradcheck_cli.judge.laws.singularity import radius_around_singularities
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats, columns
from gradcheck_cli.measure.failure import Failure, Ground, Holds, Kind, component_name
from gradcheck_cli.measure.formula_gap import (
    Comparison,
    comparison,
    gaps,
    is_the_limit,
    only_at_points,
    value_jumps,
)
from gradcheck_cli.measure.integral import Opinion, ThirdOpinion, iterates, third_opinion
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, REGULAR

Array = np.ndarray[Any, Any]

_MOSTLY = 0.5

_AT_A_POINT = (
    "the formula is wrong at a point: on all sides of it the derivative tends to another number"
)
_WITHOUT_VALUE = (
    "the formula leaves the truth only where the function itself has no value, and tends to one"
)
_WHERE_IT_JUMPS = "the formula leaves the truth only where the value of the function is set apart from those beside it"
_STEP = (
    "the derivative of the primal is zero everywhere, the rule's is not: a surrogate gradient "
    "(straight-through, or a smoothed step)"
)
_FOLLOWS_STEPS = (
    "the function has steps, of which its derivative knows nothing; the rule follows them: a surrogate gradient "
    "(straight-through, or a smoothed step)"
)
_OF_A_LIMIT = "it is the derivative of what the function's loop would come to, and that ends after a few steps, short of it"
_DATA = "no gradient is given for what is data by its name or its numbers; the truth is not zero"
_OPEN = (
    "the formula differs from autodiff through the primal, and the integral of the rule could "
    "not decide which of them is right"
)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The formula of one argument, apart from the truth by more than rounding at some row."""

    m: Measurements
    facts: Comparison
    part: slice  # the argument's components among those of all arguments
    gap: Array  # rows × components of the argument; zero where formula and truth agree

    @property
    def worst(self) -> Array:
        """The gap of each row."""
        return np.asarray(self.gap.max(axis=1, initial=0.0))

    @property
    def large(self) -> Array:
        """Rows where more than half of the digits are apart."""
        return np.flatnonzero(self.worst > half_of_the_digits(self.m.fmt.eps))

    @property
    def constant_primal(self) -> bool:
        """Is the derivative zero wherever it was compared?"""
        return bool(self.facts.zero_truth[self.part].all())

    def failure(self, row: int, kind: Kind, message: str, everywhere: bool = False) -> Failure:
        """The failure that it is at a row, in the name of the argument if there are several."""
        rule, severity = REPORTED[kind]
        component = self.part.start + int(self.gap[row].argmax())
        leaf, _ = component_name(self.m, GRADIENTS, component)
        leaves = self.m.subject.leaves
        name = leaves[leaf].path if len(leaves) > 1 else None
        local = kind in ERRORS and not everywhere
        return Failure(
            rule=rule,
            severity=severity,
            row=row,
            what=GRADIENTS,
            component=component,
            ground=Ground(kind, name),
            message=message if name is None else f"d/d{name}: {message}",
            holds=_differs_at(component) if local else None,
            as_grave=_far_apart_at(component) if local else None,
            everywhere=everywhere,
        )


def mismatches(m: Measurements, facts: Comparison) -> Iterator[Mismatch]:
    """The arguments whose formula is apart from the truth; where that is larger than any float, none can show it."""
    start = 0
    if not facts.differs.any():
        return
    differs = facts.differs & (np.abs(as_floats(m.reference.balls(GRADIENTS))) <= m.fmt.max)
    for _, elements in m.components(GRADIENTS):
        part = slice(start, start + len(elements))
        start = part.stop
        gap = np.where(differs[:, part], gaps(m)[:, part], 0.0)
        if gap.max(initial=0.0) > FORMULA_EPS.value * m.fmt.eps:
            yield Mismatch(m, facts, part, gap)


def verdict(mismatch: Mismatch) -> Failure | None:
    """The failure that a mismatch is; None if the third opinion is that the formula is right."""
    large = mismatch.large
    if not len(large):
        return _small(mismatch)
    defined = large[_has_value(mismatch.m, large)]
    if not len(defined):
        return mismatch.failure(int(large[0]), Kind.SINGULARITY, _WITHOUT_VALUE)
    large = defined
    meant, why = meant_rows(mismatch.m, large, mismatch.part)
    if not len(meant):
        return mismatch.failure(int(large[0]), Kind.FAR, why)
    large = meant
    if _autodiff_is_wrong_at_points(mismatch, large):
        return None
    return (
        _wrong_at_points(mismatch, large)
        or _near_singularities(mismatch, large)
        or _by_third_opinion(mismatch, large)
    )


def _has_value(m: Measurements, rows: Array) -> Array:
    """Rows at which the primal computes its value, and does not only tend to one."""
    return np.asarray((m.reference.states(VALUES)[rows] != LIMIT).all(axis=1))


def _small(mismatch: Mismatch) -> Failure | None:
    among_the_worst = mismatch.worst >= _MOSTLY * mismatch.worst.max()
    row = int(among_the_worst.argmax())  # the simplest
    third = third_opinion(mismatch.m, row, mismatch.part)
    if third is not None and (third.settles or _is_right_beside_none(mismatch, third)):
        return None
    size = f"{mismatch.worst.max():.1e}"
    message = f"the formula is an approximation: off by up to {size} of the gradient's scale"
    return mismatch.failure(row, Kind.APPROXIMATE, message)


def _is_right_beside_none(mismatch: Mismatch, third: ThirdOpinion) -> bool:
    """Has autodiff no derivative at all, as through a bisection, and the function the rule's? Nothing is approximated there."""
    return mismatch.constant_primal and third.opinion is Opinion.RIGHT


def _autodiff_is_wrong_at_points(mismatch: Mismatch, large: Array) -> bool:
    """Is the truth autodiff's in floats, which knows of no ties, and the rule its limit on all sides?"""
    m = mismatch.m
    knows_ties = m.sources.primal.over_reals or m.sources.primal.by_values
    if knows_ties or mismatch.constant_primal or m.dear:
        return False
    return is_the_limit(m, large, mismatch.part)


def _wrong_at_points(mismatch: Mismatch, large: Array) -> Failure | None:
    """Points of measure zero: the nudge tells there, the integral cannot (SEMANTICS E, F)."""
    m, part = mismatch.m, mismatch.part
    if mismatch.constant_primal or m.dear:
        return None
    limits = (m.reference.states(GRADIENTS)[large, part] == LIMIT).any(axis=1)
    if not limits.all() and not only_at_points(m, large[~limits], part):
        return None
    if limits.all() and value_jumps(m, large):
        return mismatch.failure(int(large[0]), Kind.SINGULARITY, _WHERE_IT_JUMPS)
    return mismatch.failure(int(large[0]), Kind.FORMULA, _AT_A_POINT, everywhere=True)


def _near_singularities(mismatch: Mismatch, large: Array) -> Failure | None:
    radius = radius_around_singularities(mismatch.m, mismatch.facts, large)
    if radius is None:
        return None
    message = f"the formula leaves the truth only within {radius:.1e} of a singularity"
    return mismatch.failure(int(large[0]), Kind.SINGULARITY, message)


def _by_third_opinion(mismatch: Mismatch, large: Array) -> Failure | None:
    row = int(large[0])
    if _is_a_step_among_others(mismatch):
        every = list(_of_components(mismatch, large))
        along = [third for third in every if third is not None and not third.constant]
        if along and not any(third.against for third in along):
            return mismatch.failure(row, Kind.SURROGATE, _STEP)
    of_components = iterates(mismatch.m)
    asked = _of_moving(mismatch, large) if of_components else _of_rows(mismatch, large)
    opinion = _gravest({third.opinion for third in asked})
    if opinion is Opinion.RIGHT:
        return None
    if opinion is Opinion.WRONG and any(third.smooth for third in asked):
        return _wrong(mismatch, row)
    # Wrong so near one point only that no integral sees more than a step.
    if opinion is Opinion.STEP and _mostly_agrees(mismatch):
        return _wrong(mismatch, row)
    step = opinion is Opinion.STEP and not _gives_zero(mismatch)
    if step or mismatch.constant_primal:  # no bisection either: a step function
        message = _STEP if mismatch.constant_primal else _FOLLOWS_STEPS
        return mismatch.failure(row, Kind.SURROGATE, message)
    if opinion is Opinion.OPEN:
        return mismatch.failure(row, Kind.INCONCLUSIVE, _OPEN)
    return _wrong(mismatch, row)


def _is_a_step_among_others(mismatch: Mismatch) -> bool:
    """Is the function a step in this argument, for sure, and perhaps smooth in others?

    A loop may find by steps what has a derivative.
    """
    several = len(mismatch.m.subject.leaves) > 1
    return mismatch.constant_primal and several and not iterates(mismatch.m)


def _gravest(opinions: set[Opinion]) -> Opinion:
    """The gravest opinion; where one is open, the others decide."""
    gravest_first = (Opinion.WRONG, Opinion.STEP, Opinion.RIGHT)
    return next((opinion for opinion in gravest_first if opinion in opinions), Opinion.OPEN)


def _of_rows(mismatch: Mismatch, rows: Array) -> list[ThirdOpinion]:
    """The third opinions at a few plain rows, of the argument alone: what others are denied is another finding.

    Where the function does not change with it at all, they are of all arguments at once.
    """
    m = mismatch.m
    size = np.abs(columns(m.points, m.count)).max(axis=1)
    states = np.concatenate([m.reference.states(VALUES), m.reference.states(GRADIENTS)], axis=1)
    # One element outside would hide the rest.
    inside: Array = np.asarray(np.isin(states, (REGULAR, LIMIT)).all(axis=1))
    low, high = ORDINARY.value
    floats = _within_floats(m)
    plain = sorted(
        rows.tolist(), key=lambda r: (not inside[r], not floats[r], not low <= size[r] <= high, r)
    )
    few = plain[: OPINIONS.value]
    given = _until_wrong(third_opinion(m, row, mismatch.part) for row in few)
    if given and all(third.constant for third in given):
        given = _until_wrong(third_opinion(m, row) for row in few)
    return given


def _of_moving(mismatch: Mismatch, rows: Array) -> list[ThirdOpinion]:
    """The third opinions on single components.

    Where the function does not move, at the end of a bracket, it has no derivative of its own; if it does
    at others, these decide.
    """
    given = _until_wrong(_of_components(mismatch, rows))
    return [third for third in given if not third.constant] or given


def _of_components(mismatch: Mismatch, rows: Array) -> Iterator[ThirdOpinion | None]:
    """The third opinions on single components, at different numbers, the plain ones first."""
    m, part = mismatch.m, mismatch.part
    numbers = columns(m.points, m.count)[:, part]
    low, high = ORDINARY.value
    places = {
        float(numbers[row, c]): (row, slice(part.start + c, part.start + c + 1))
        for row in reversed(rows.tolist())
        for c in np.flatnonzero(mismatch.gap[row] > half_of_the_digits(m.fmt.eps)).tolist()
    }
    plain = sorted(places, key=lambda x: (not low <= abs(x) <= high, x < 0, abs(x)))
    yield from (third_opinion(m, *places[x]) for x in plain[: 2 * OPINIONS.value])


def _until_wrong(asked: Iterable[ThirdOpinion | None]) -> list[ThirdOpinion]:
    """The opinions that are given, up to the first that settles it: each is dear, and none is graver."""
    given: list[ThirdOpinion] = []
    for third in asked:
        if third is not None:
            given.append(third)
            if third.opinion is Opinion.WRONG and third.smooth:
                break
    return given


def _within_floats(m: Measurements) -> Array:
    """Rows at which a float can hold the value and the gradient: elsewhere rounding hides either."""
    sizes = [np.abs(m.reference.middle(what)) for what in (VALUES, GRADIENTS)]
    largest = np.max([size.max(axis=1, initial=0) for size in sizes], axis=0)
    return np.asarray((largest > m.fmt.tiny) & (largest <= m.fmt.max))


def _wrong(mismatch: Mismatch, row: int) -> Failure:
    m = mismatch.m
    if _is_left_out(mismatch):
        return mismatch.failure(row, Kind.DATA, _DATA)
    everywhere = bool(_share(mismatch) > EVERYWHERE.value)
    plain = next(iter(m.floats.values())).custom is None
    message = "the custom rules that it calls make it wrong" if plain else "the formula is wrong"
    explanation = _OF_A_LIMIT if m.rule and m.rule.of_a_limit else _explanation(mismatch)
    if explanation:
        message += f": {explanation}"
    elif not everywhere:
        message += " at some inputs"
    return mismatch.failure(row, Kind.FORMULA, message, everywhere)


def _share(mismatch: Mismatch) -> float:
    """The share of rows at which it is wrong; of several arguments, among those where it is, or should be, anything but zero.

    Of a single one, the side on which all is zero is worth to be told.
    """
    m, part, rows = mismatch.m, mismatch.part, mismatch.facts.rows
    assert m.rule is not None
    both = columns(m.rule.gradients, m.count), m.reference.balls(GRADIENTS)
    numbers = np.concatenate([as_floats(each[rows, part]) for each in both], axis=1)
    differs = np.asarray(mismatch.facts.differs[rows, part].any(axis=1))
    telling = (numbers != 0).any(axis=1) | differs | (len(m.subject.leaves) < 2)
    return float(differs[telling].mean())


def _mostly_agrees(mismatch: Mismatch) -> bool:
    """Is the rule the derivative at most rows where that is not zero, or at all ordinary numbers to half of the digits?

    Then the function is no step.
    """
    m, part, facts = mismatch.m, mismatch.part, mismatch.facts
    slopes = as_floats(m.reference.balls(GRADIENTS)[facts.rows, part]) != 0
    slopes &= m.reference.states(GRADIENTS)[facts.rows, part] == REGULAR
    differs = np.asarray(facts.differs[facts.rows, part])
    at_slopes = differs[slopes]
    if at_slopes.any() and at_slopes.mean() < _MOSTLY:
        return True
    low, high = ORDINARY.value
    sizes = np.abs(columns(m.points, m.count)[facts.rows, part])
    ordinary = slopes & (sizes >= low) & (sizes <= high)
    apart = mismatch.gap[facts.rows] > half_of_the_digits(m.fmt.eps)
    return bool(ordinary.any() and not apart[ordinary].any())


def _gives_zero(mismatch: Mismatch) -> bool:
    """Is the rule zero wherever it was compared? What only oscillates is bounded as a step is."""
    assert mismatch.m.rule is not None
    formula = columns(mismatch.m.rule.gradients, mismatch.m.count)
    return not as_floats(formula[mismatch.facts.rows, mismatch.part]).any()


def _is_left_out(mismatch: Mismatch) -> bool:
    """Is the argument data, beside others that have a gradient?"""
    m, leaves = mismatch.m, mismatch.m.subject.leaves
    assert m.rule is not None
    leaf, _ = component_name(m, GRADIENTS, mismatch.part.start)
    formula = columns(m.rule.gradients, m.count)[mismatch.facts.rows, mismatch.part]
    return len(leaves) > 1 and leaves_out_data(leaves[leaf], list(formula.flat))


def _explanation(mismatch: Mismatch) -> str | None:
    """What change of the formula would make it right."""
    m, part = mismatch.m, mismatch.part
    assert m.rule is not None
    truth, formula = m.reference.balls(GRADIENTS), columns(m.rule.gradients, m.count)
    regular = (m.reference.states(GRADIENTS)[:, part] == REGULAR).all(axis=1)
    rows = [int(r) for r in mismatch.facts.rows if regular[r]]
    factor = describe_factor(
        [t for r in rows for t in truth[r, part]],
        [f for r in rows for f in formula[r, part]],
        m.sizes,
        m.settings,
    )
    if factor is not None:
        return factor
    leaf, _ = component_name(m, GRADIENTS, part.start)
    differs = np.asarray(mismatch.facts.differs[:, part].any(axis=1))
    return explain(m, leaf, [r for r in rows if differs[r]], [r for r in rows if not differs[r]])


def _differs_at(component: int) -> Holds:
    def holds(m: Measurements) -> Array:
        return np.asarray(comparison(m).differs[:, component])

    return holds


def _far_apart_at(component: int) -> Holds:
    def holds(m: Measurements) -> Array:
        return np.asarray(gaps(m)[:, component] > half_of_the_digits(m.fmt.eps))

    return holds
