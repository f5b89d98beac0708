"""What a change of a rule must make right at one signature: a few rows in floats first, then all over the reals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import LIMIT_BITS, ROUNDINGS, SCREEN
from gradcheck_cli.judge.repair.forward_calls import ForwardCalls
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.ordinary import ordinary_first
from gradcheck_cli.measure.states import LIMIT, REGULAR
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.facts import OPEN_LOOPS
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]

_SCREENED = 2  # points of a signature at which a change is tried first
_MOST_ENDS = 12
_GOAL = 40
_MOST_BITS = 1024
_MOST_STEPS = 3_000_000  # of flint, for the rows at which one change is verified


@dataclass(frozen=True, slots=True)
class Trial:
    """What a change must make right at one signature; `wrong` are rows at which the rule is wrong."""

    m: Measurements
    wrong: list[int]
    _calls: ForwardCalls = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_calls", ForwardCalls(self.m))

    @property
    def simple(self) -> bool:
        """Whole, cheap, and without loops whose end a change might take away."""
        program = self.m.subject.traces().rule
        whole = not self.m.in_part and not self.m.dear
        return whole and program is not None and not program.primitives() & OPEN_LOOPS

    def rows(self) -> Array:
        """Rows at which value and gradient have one truth, within reach."""
        states = [self.m.reference.states(VALUES), self.m.reference.states(GRADIENTS)]
        one = np.isin(np.concatenate(states, axis=1), (REGULAR, LIMIT)).all(axis=1)
        rows = np.flatnonzero(one & ~self.m.beyond)
        at_limits = rows[(np.concatenate(states, axis=1)[rows] == LIMIT).any(axis=1)]
        return np.setdiff1d(rows, self._nowhere(at_limits))

    def _nowhere(self, rows: Array) -> Array:
        """Rows, out of some, at which the rule divides by 0: what it tends to there is another question."""
        program = self.m.subject.traces().rule
        if program is None or not len(rows):
            return np.zeros(0, int)
        outs = _balls(self.m, program, rows)
        if outs is None:
            return np.zeros(0, int)
        return np.asarray(rows[[not all(ball.is_finite() for ball in row) for row in outs]])

    def shows(self) -> bool:
        """Do the floats of the rule as it is written show the fault?"""
        return any(any(self.apart(row, self.gradients(row) or []) or []) for row in self.wrong)

    def screens(self, rows: Array) -> list[int]:
        """The wrong rows among these, and the ordinary ones that tell most."""
        plain: list[int] = ordinary_first(self.m, rows)[:_SCREENED].tolist()
        return [*(r for r in self.wrong if r in rows), *plain]

    def looks(self, rows: Array) -> list[int]:
        """Rows to look at what stands there: in turn those at which the rule is wrong, and those at which it may be right."""
        plain: list[int] = ordinary_first(self.m, rows).tolist()
        wrong = [row for row in plain if row in self.wrong]
        right = [row for row in plain if row not in self.wrong]
        turns = itertools.zip_longest(wrong, right)
        return [row for turn in turns for row in turn if row is not None]

    def ends(self, rows: Array) -> list[int]:
        """Rows with the largest inputs, out of these, at which the gradients are finite in floats."""
        measured = getattr(self.m.floats[self.m.mode], self.m.judged) or []
        finite: Array = np.asarray(np.isfinite(columns(measured, self.m.count)).all(axis=1))
        sizes = np.abs(columns(self.m.points, self.m.count)).max(axis=1, initial=0)
        largest = sorted(rows[finite[rows]].tolist(), key=lambda row: -sizes[row])
        return largest[:_MOST_ENDS]

    def is_finite(self, row: int) -> bool:
        """Has the rule gradients there, without NaN and infinities?"""
        gradients = self.gradients(row)
        return gradients is not None and all(np.isfinite(g).all() for g in gradients)

    def gradients(self, row: int) -> list[Array] | None:
        """The rule's gradients there, each in a line; none where it raises."""
        try:
            with calling_user_code():
                gradients = self._calls.gradients(row)
        except UserCodeError:
            return None
        return [np.asarray(g, np.float64).reshape(-1) for g in gradients]

    def apart(self, row: int, gradients: Sequence[Array]) -> list[bool] | None:
        """Which of the gradients are not about the truth; none where they are no gradients of these arguments."""
        truth = self.m.reference.middle(GRADIENTS)[row]
        numbers = np.concatenate([np.empty(0), *gradients])  # none, if the rule is not its own
        if numbers.shape != truth.shape:
            return None
        off = ~(np.abs(numbers - truth) <= SCREEN.value * np.abs(truth).max(initial=0))
        ends = np.cumsum([len(g) for g in gradients])[:-1]
        return [bool(each.any()) for each in np.split(off, ends)]

    def factors(self, rows: Sequence[int]) -> list[float]:
        """By which the gradients are too large at the first of these rows, of those that are not about the truth."""
        gradients = self.gradients(rows[0]) if rows else None
        apart = None if gradients is None else self.apart(rows[0], gradients)
        if gradients is None or apart is None:
            return []
        numbers, truth = np.concatenate(gradients), self.m.reference.middle(GRADIENTS)[rows[0]]
        wrong = np.repeat(apart, [len(g) for g in gradients]) & (truth != 0)
        return [float(f) for f in numbers[wrong] / truth[wrong]]

    def passes(self, rows: Sequence[int]) -> bool:
        """Are the gradients about the truth, in the framework's own floats?"""
        for row in rows:
            gradients = self.gradients(row)
            apart = None if gradients is None else self.apart(row, gradients)
            if apart is None or any(apart):  # the change makes no sense, or mends nothing
                return False
        return True

    def verified(self, rows: Array, *, in_floats: bool = False) -> bool:
        """Are values and gradients the truth, over the reals, at all these rows; or but for rounded constants?"""
        program = self.m.subject.rule_program()
        if program is None or by_flint(program) * len(rows) > _MOST_STEPS:
            return False
        return _equal(self.m, program, rows, in_floats=in_floats)


def _equal(m: Measurements, program: Program, rows: Array, *, in_floats: bool) -> bool:
    if not all(np.issubdtype(aval.dtype, np.inexact) for aval in program.out_avals):
        return False  # integers are no gradients
    outs = _balls(m, program, rows)
    balls, states = (
        np.concatenate([of(VALUES), of(GRADIENTS)], axis=1)[rows]
        for of in (m.reference.balls, m.reference.states)
    )
    if outs is None or outs.shape != balls.shape:
        return False
    near = _shown(m, balls) if in_floats else 0 * balls
    each = zip(outs.flat, balls.flat, states.flat, near.flat, strict=True)
    return all(a.is_finite() and (_is(a, b, state) or abs(a - b) <= n) for a, b, state, n in each)


def _balls(m: Measurements, program: Program, rows: Array) -> Array | None:
    """The results over the reals; none of what has no meaning there, as a callback."""
    args = [a[rows] for a in (*m.points, *m.cotangents)]
    try:
        return columns(enclose(program, args, goal=_GOAL, most_bits=_MOST_BITS).outs, len(rows))
    except NoRealMeaning:
        return None


def _shown(m: Measurements, truth: Array) -> Array:
    """What floats show of each array of a row, beside its largest: constants are rounded, and functions of a library are, too."""
    share, least = arb(2) ** -(m.fmt.digits - ROUNDINGS.value), arb(m.fmt.tiny)
    arrays = (*m.reference.truth.values, *m.reference.truth.gradients)
    ends = np.cumsum([np.prod(a.shape[1:], dtype=int) for a in arrays])[:-1]
    rows = [
        [_largest(part) * share + least for part in np.split(row, ends) for _ in part]
        for row in truth
    ]
    return np.array(rows).reshape(truth.shape)


def _largest(balls: Array) -> arb:
    return max((abs(ball) for ball in balls), default=arb(0))


def _is(ball: arb, truth: arb, state: int) -> bool:
    """Is it the truth? A limit is known as what is next to it, and not quite that."""
    if state != LIMIT:
        return bool(ball.overlaps(truth))
    near = (abs(ball) + abs(truth)) * arb(2) ** -LIMIT_BITS.value
    return bool(ball.overlaps(truth) or abs(ball - truth) <= near)
