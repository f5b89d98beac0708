"""Iterations have two admissible derivatives: the program's, and the limit's (SEMANTICS B6).

Where the loops of function and rule have run on, what has settled is compared: a rule that gives the
derivative of the limit is right, and says at each point what it makes of the state that was reached.
What never settles has no limit there: such points are outside the domain of a function that seeks one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.contract.limits import FEWEST_TRIPS, NEAR_ITS_LIMIT, SEEKING, SETTLED
from gradcheck_cli.measure.ball_truth import Truth
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats, columns
from gradcheck_cli.measure.measurements import Rows
from gradcheck_cli.measure.states import OUTSIDE, REGULAR
from gradcheck_cli.reals.facts import LOOPS, OPEN_LOOPS
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Array, Limits, Reached, picked

_NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True)
class Settled:
    """Components of each row that are the same after more trips and after some more, and what they are."""

    numbers: Array
    are: Array


def admit_limits(
    seeks: bool | None, rows: Rows, values: Sequence[Array], truth: Truth, rule: Truth
) -> tuple[bool, tuple[int, ...]]:
    """Write into the truth what the limits say of it, if the function seeks one.

    Says whether it does (None: nobody has looked), and the rows at which it does not end in floats.
    """
    seeks = rows.subject.traces().solves or seeks
    limits = None if seeks is False else rows.subject.limits(rows.points, rows.cotangents)
    if limits is None and seeks is not False and _differ(truth, rule, rows):
        limits = rows.subject.limits_of_series(rows.points, rows.cotangents)
    if limits is None:
        return False, ()
    if not seeks and not _at_its_limit(limits, values, rows):
        of_the_limit = _is_of_the_limit(limits, rows)
        rule.of_a_limit = of_the_limit and _takes_few_steps(rows.subject)
        if not of_the_limit or rule.of_a_limit:
            return False, ()
    _admit(truth, rule, limits, rows)
    primal = rows.subject.traces().primal
    may_go_on = primal is not None and primal.primitives() & OPEN_LOOPS
    return True, _left_out(truth, values) if may_go_on else ()


def _differ(truth: Truth, rule: Truth, rows: Rows) -> bool:
    """Are truth and rule apart at an ordinary point, where both have a value?"""
    both = [columns(each.gradients, rows.count)[rows.base_rows] for each in (truth, rule)]
    states = [columns(each.gradient_states, rows.count)[rows.base_rows] for each in (truth, rule)]
    regular = (states[0] == REGULAR) & (states[1] == REGULAR)
    pairs = zip(both[0][regular], both[1][regular], strict=True)
    return any(not a.overlaps(b) for a, b in pairs)


def _at_its_limit(limits: Limits, values: Sequence[Array], rows: Rows) -> bool:
    """Has the function come to its limit by itself at a share of the ordinary points?"""
    base = _ordinary(rows)
    settled = _settled(limits.truth, VALUES, rows.count)
    reached = columns(values, rows.count)
    there = (settled.are & _same(reached, settled.numbers, NEAR_ITS_LIMIT.value))[base]
    return bool(there.size and there.mean() >= SEEKING.value)


def _is_of_the_limit(limits: Limits, rows: Rows) -> bool:
    """Is the rule the derivative of the limit at nearly all ordinary points that have one?"""
    base = _ordinary(rows)
    truth, rule = (_settled(each, GRADIENTS, rows.count) for each in (limits.truth, limits.rule))
    telling = (truth.are & (truth.numbers != 0))[base]
    right = (rule.are & _same(truth.numbers, rule.numbers, floor=0.0))[base]
    return bool(telling.any() and right[telling].mean() > _NEARLY_ALL)


def _ordinary(rows: Rows) -> Array:
    return np.asarray(rows.base_rows if len(rows.base_rows) else np.arange(rows.count))


def _takes_few_steps(subject: Subject) -> bool:
    """Do all loops of the function end after a few trips that are counted beforehand?

    Three passes of a circuit are not infinitely many: what does not come to its limit by then has none for its truth.
    """
    primal = subject.traces().primal
    loops = [] if primal is None else [s for s in primal.all_steps() if s.name in LOOPS]
    counted = bool(loops) and all(s.name not in OPEN_LOOPS for s in loops)
    return counted and all(s.params["length"] < FEWEST_TRIPS.value for s in loops)


def _admit(truth: Truth, rule: Truth, limits: Limits, rows: Rows) -> None:
    """Write into the truth what the limits say of it."""
    count = rows.count
    values, gradients = (_settled(limits.truth, what, count) for what in (VALUES, GRADIENTS))
    gradients.are[~_ends_somewhere(values, rows)] = False
    of_rule = _settled(limits.rule, GRADIENTS, count)
    right = gradients.are & of_rule.are & _same(gradients.numbers, of_rule.numbers, floor=0.0)
    _write(truth.value_states, ~values.are, OUTSIDE, count)
    for each in (truth, rule):
        _write(each.gradient_states, ~gradients.are, OUTSIDE, count)
    _take_over(truth, rule, right, rows)


def _ends_somewhere(values: Settled, rows: Rows) -> Array:
    """The rows in which all values settle that the gradient is of.

    That of an iteration which wanders about for ever may be a number by chance, as on a stretch where each trip takes one off.
    """
    sample = rows.subject.sample
    judged = rows.cotangents if sample is None else picked(rows.cotangents, sample.outputs)
    weighed = columns(judged, rows.count) != 0
    return np.asarray((values.are | ~weighed).all(axis=1))


def _left_out(truth: Truth, values: Sequence[Array]) -> tuple[int, ...]:
    """Rows at which the loop was cut in floats, where it would not end: outside the domain, and named."""
    gone: Array = np.asarray(np.isnan(columns(values, len(values[0]))).any(axis=1))
    outside = (columns(truth.value_states, len(gone)) == OUTSIDE).any(axis=1)
    for state in (*truth.value_states, *truth.gradient_states):
        state[gone] = OUTSIDE
    return tuple(np.flatnonzero(gone & ~outside).tolist())


def _settled(reached: tuple[Reached, Reached], what: str, count: int) -> Settled:
    near, far = (columns(getattr(each, what), count) for each in reached)
    return Settled(far, np.isfinite(near) & np.isfinite(far) & _same(near, far))


def _same(
    a: Array, b: Array, share: float = SETTLED.value, floor: float = SETTLED.value**2
) -> Array:
    """Equal to this share of each component, or to `floor` of its row's largest."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(np.abs(a), np.abs(b))
        largest = np.nan_to_num(size, posinf=0.0).max(axis=1, keepdims=True, initial=0.0)
        allowed = np.maximum(share * size, floor * largest)
        return np.asarray(np.abs(a - b) <= allowed)


def _write(states: list[Array], where: Array, state: int, count: int) -> None:
    start = 0
    for each in states:
        flat = each.reshape(count, -1)
        part = where[:, start : start + flat.shape[1]]
        start += flat.shape[1]
        flat[part] = state


def _take_over(truth: Truth, rule: Truth, right: Array, rows: Rows) -> None:
    """Where the rule is the limit's derivative, and not the program's: outside, if it is the program's at most.

    If it hardly ever is, the function is stopped far from its limit; then the rule's own formula is the truth.
    """
    count = rows.count
    states = columns(rule.gradient_states, count)
    ours, theirs = columns(truth.gradients, count), columns(rule.gradients, count)
    told = right & (states == REGULAR)
    apart = told & ~_same(as_floats(ours), as_floats(theirs), share=rows.fmt.eps, floor=0.0)
    if 2 * apart.sum() < told.sum():
        for each in (truth, rule):
            _write(each.gradient_states, apart, OUTSIDE, count)
        return
    _write(truth.gradient_states, apart, REGULAR, count)
    start = 0
    for balls, given in zip(truth.gradients, rule.gradients, strict=True):
        mine, its = balls.reshape(count, -1), given.reshape(count, -1)
        part = apart[:, start : start + mine.shape[1]]
        start += mine.shape[1]
        mine[part] = its[part]
    truth.by_limit |= bool(apart.any())
