"""The certified side: values and gradients over the reals, with kinks, holes and poles told apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from gradcheck_cli.contract.limits import JUMP_BITS, MOST_TIED
from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.inputs.lattice import generic
from gradcheck_cli.measure.nudge import (
    Answer,
    Settled,
    Side,
    defined_nearby,
    evaluations,
    idle_ties,
    nudge,
)
from gradcheck_cli.measure.resolution import largest_exponents
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE, REGULAR, UNDECIDED
from gradcheck_cli.reals.decisions import decided_otherwise
from gradcheck_cli.reals.enclose import MOST_BITS, Enclosed, enclose
from gradcheck_cli.reals.facts import Effort, Law, named
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.results import Sample

Array = np.ndarray[Any, Any]

_MOST_IDLE, _FEWEST_IDLE = 96, 8  # rows of arrays whose ties are looked at
_SLOW_IDLE = 4_000  # special functions in all of them
_MOST_ARRAY_NUDGES = 16
_MOST_SPECIAL = 6  # rows of generic arrays that tie
_SLOW_NUDGES = 400
_SLOW = named(lambda facts: facts.effort is Effort.SLOW)
# So many powers, exponentials and their like take as long as one of these.
_FUNCTION, _A_SLOW_ONE = named(lambda facts: facts.effort is Effort.FUNCTION), 32
_NORMWISE = named(lambda facts: facts.normwise)
_SUMS = named(lambda facts: facts.law in (Law.REDUCTION, Law.RUNNING, Law.PRODUCT, Law.WINDOW))
# A value that differs from its nudged neighbours by more than this jumps there.
_TOUCH = 2.0**-JUMP_BITS.value


@dataclass(slots=True)
class Truth:
    """Per output and per leaf: balls and states, rows first. `sides` holds the nudged rows."""

    values: list[Array]
    gradients: list[Array]
    value_states: list[Array]
    gradient_states: list[Array]
    sides: dict[int, list[Side]] = field(default_factory=dict)
    estimated: bool = False  # some row rests on midpoints that agree, not on narrow balls
    by_limit: bool = False  # some row is the rule's own, which is the limit's in float64
    of_a_limit: bool = False  # a rule: of a limit to which the function's few steps do not come

    def arrays(self) -> list[Array]:
        """All balls and all states."""
        return [*self.values, *self.gradients, *self.value_states, *self.gradient_states]

    def sampled(self, sample: Sample) -> Truth:
        """The truth of some components alone, of each output and leaf in a row."""

        def picked(arrays: Sequence[Array], picks: Sequence[Array]) -> list[Array]:
            return [a.reshape(len(a), -1)[:, p] for a, p in zip(arrays, picks, strict=True)]

        return replace(
            self,
            values=picked(self.values, sample.outputs),
            gradients=picked(self.gradients, sample.leaves),
            value_states=picked(self.value_states, sample.outputs),
            gradient_states=picked(self.gradient_states, sample.leaves),
        )

    def take(self, rows: Array) -> Truth:
        """The truth at some rows alone."""
        index = {int(row): i for i, row in enumerate(rows)}
        return Truth(
            [a[rows] for a in self.values],
            [a[rows] for a in self.gradients],
            [a[rows] for a in self.value_states],
            [a[rows] for a in self.gradient_states],
            {index[row]: sides for row, sides in self.sides.items() if row in index},
            self.estimated,
            self.by_limit,
            self.of_a_limit,
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """How well a truth must be known, and what may be nudged for it.

    `goal` is the relative accuracy in bits. With `ties`, exact ties count as kinks: their
    derivative is a convention. A nudge is dear; `only` names the rows that are worth one.
    """

    goal: int
    ties: bool
    nudged: bool = True
    only: Array | None = None
    most_bits: int = MOST_BITS


class Source(Protocol):
    """Where a truth comes from: balls, float64 or differences (SEMANTICS G)."""

    @property
    def evidence(self) -> Evidence: ...
    @property
    def normwise(self) -> bool: ...  # do floats lose digits beside a matrix's largest element?
    @property
    def over_reals(self) -> bool: ...  # is it a walk of the program, not floats?
    @property
    def by_values(self) -> bool: ...  # does it look at values only, at no derivative of a program?
    @property
    def dear(self) -> bool: ...  # does one row take dozens of calls?
    @property
    def judges_digits(self) -> bool: ...  # is it fine enough to grade the digits of floats?

    def evaluate(self, points: Sequence[Array], cotangents: Sequence[Array], ask: Ask) -> Truth: ...
    # The same with its steps and comparisons decided as after a few roundings, a few times; nothing where unknown.
    def decided_otherwise(self, by: float, seed: int) -> Iterable[Source]: ...
    # Rows in which a loop came to its last trip, where it ends by itself in others.
    def run_out(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array: ...
    @property
    def mixed(self) -> bool: ...  # does each result rest on sums over several elements?
    # For each row the largest number of which an exponential or a sine is taken, as far as it is known.
    def exponents(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array: ...


def factors(*programs: Program | None) -> bool:
    """Does one of the programs factor a matrix?"""
    return any(p is not None and p.primitives() & _NORMWISE for p in programs)


def mixes(program: Program) -> bool:
    """Do results rest on sums over several elements?"""
    return bool(program.primitives() & _SUMS)


@dataclass(frozen=True, slots=True)
class Reals:
    """The first rung: a program walked in balls."""

    program: Program
    held: tuple[bool, ...] = ()  # arguments of single numbers, beside which there are none
    evidence: Evidence = Evidence.CERTIFIED
    over_reals: bool = True
    by_values: bool = False
    dear: bool = False
    judges_digits: bool = True

    @property
    def normwise(self) -> bool:
        return factors(self.program)

    @property
    def mixed(self) -> bool:
        return mixes(self.program)

    def decided_otherwise(self, by: float, seed: int) -> Iterable[Source]:
        """Walks in which what steps and comparisons look at is moved by up to this part of itself."""
        return (Reals(p, self.held) for p in decided_otherwise(self.program, by, seed))

    def run_out(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        """No rows: its loops are part of the program."""
        return np.zeros(len(points[0]), bool)

    def exponents(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        """For each row the largest number of which an exponential or a sine is taken."""
        return largest_exponents(self.program, [*points, *cotangents])

    def evaluate(self, points: Sequence[Array], cotangents: Sequence[Array], ask: Ask) -> Truth:
        """Truth at each row. At rows that are not nudged, what is undefined stays outside."""
        count = len(points[0])
        outputs = len(cotangents)
        first = enclose(
            self.program,
            [*points, *cotangents],
            goal=ask.goal,
            most_bits=ask.most_bits,
            loose=not (ask.ties or ask.nudged),
        )
        states = [_initial_states(out, first, ask.goal) for out in first.outs]
        truth = Truth(
            first.outs[:outputs],
            first.outs[outputs:],
            states[:outputs],
            states[outputs:],
            estimated=bool(first.estimated.any()),
        )
        if ask.nudged and count:
            _nudged(self, points, cotangents, first, truth, ask)
        elif ask.ties:
            for state in truth.gradient_states:
                state[first.ties] = np.where(state[first.ties] == REGULAR, KINK, state[first.ties])
        close_domain(truth)
        return truth


def _nudged(
    source: Reals,
    points: Sequence[Array],
    cotangents: Sequence[Array],
    first: Enclosed,
    truth: Truth,
    ask: Ask,
) -> None:
    """Ask the nudge about the rows that are undefined or (with `ties`) tied."""
    count, program = len(points[0]), source.program
    holes = np.zeros(count, bool)
    for state in (*truth.value_states, *truth.gradient_states):
        holes |= (state == OUTSIDE).reshape(count, -1).any(axis=1)
    asked = np.ones(count, bool) if ask.only is None else np.isin(np.arange(count), ask.only)
    here = np.flatnonzero(holes & asked)
    holes[:] = False
    holes[here] = defined_nearby(program, [p[here] for p in points], [c[here] for c in cotangents])
    tied = first.ties if ask.ties else np.zeros(count, bool)
    # Of many elements a few directions miss some sides of a kink, and would call it a limit.
    few = sum(int(np.prod(p.shape[1:], dtype=int)) for p in points) <= MOST_TIED.value
    rows = np.flatnonzero(holes | (tied & asked if few else False))[: most_nudged(program, points)]
    left = np.setdiff1d(np.flatnonzero(tied), rows)
    if len(left) and not few:
        left = _deciding(source, points, cotangents, left, asked, first, truth)
        # What ties there is a number of its own, or one at a value of its own: it has two sides.
        arrays = [p[left] for p in points if p[0].size > 1]
        apart = left[asked[left] & generic(arrays)][:_MOST_SPECIAL]
        rows, left = np.sort(np.concatenate([rows, apart])), np.setdiff1d(left, apart)
    for state in truth.gradient_states:
        state[left] = np.where(state[left] == REGULAR, KINK, state[left])
    if len(rows):
        _resolve(source, points, cotangents, rows, first, truth)


def _deciding(
    source: Reals,
    points: Sequence[Array],
    cotangents: Sequence[Array],
    rows: Array,
    asked: Array,
    first: Enclosed,
    truth: Truth,
) -> Array:
    """Of tied rows, those whose ties decide something also where what is held does not move; of the others, its own gradients are left open."""
    left = rows[~_idle(source, points, cotangents, rows, asked, first, ())]
    if not len(left) or not any(source.held):
        return left
    idle = _idle(source, points, cotangents, left, asked, first, source.held)
    _open_held(truth, left[idle], source.held)
    return left[~idle]


def _open_held(truth: Truth, rows: Array, held: Sequence[bool]) -> None:
    """Of what was held, a tie leaves the own gradient open."""
    for state, stays in zip(truth.gradient_states, held, strict=False):
        if stays:
            state[rows] = np.where(state[rows] == REGULAR, KINK, state[rows])


def _idle(
    source: Reals,
    points: Sequence[Array],
    cotangents: Sequence[Array],
    rows: Array,
    asked: Array,
    first: Enclosed,
    held: Sequence[bool],
) -> Array:
    """Of tied rows, those whose ties decide nothing; of many, some of the `asked` ones from all over and the first others."""
    slow = source.program.numbers(_SLOW)
    most = max(_FEWEST_IDLE, min(_MOST_IDLE, _SLOW_IDLE // slow)) if slow else _MOST_IDLE
    wanted = _spread(np.flatnonzero(asked[rows]), most * 3 // 4)
    others = np.setdiff1d(np.arange(len(rows)), wanted)[: most - len(wanted)]
    chosen = np.sort(np.concatenate([wanted, others]))
    looked = rows[chosen]
    idle = np.zeros(len(rows), bool)
    idle[chosen] = idle_ties(
        source.program, [p[looked] for p in points], [c[looked] for c in cotangents],
        [o[looked] for o in first.outs], held,
    )  # fmt: skip
    return idle


def _spread(places: Array, most: int) -> Array:
    """Some of these, the first and the last among them."""
    if len(places) <= most:
        return places
    return np.asarray(places[np.unique(np.linspace(0, len(places) - 1, most).astype(int))])


def most_nudged(program: Program, points: Sequence[Array]) -> int | None:
    """How many rows may be nudged: an array's nudge costs as much as all its elements.

    Special functions at thousands of bits take milliseconds each, and many powers as long: their cost is known before.
    """
    most = None if all(p.ndim == 1 for p in points) else _MOST_ARRAY_NUDGES
    slow = program.numbers(_SLOW) + program.numbers(_FUNCTION) // _A_SLOW_ONE
    if not slow:
        return most
    slow *= evaluations([p.shape[1:] for p in points])
    return min(most or _SLOW_NUDGES, max(1, _SLOW_NUDGES // slow))


def _initial_states(out: Array, first: Enclosed, goal: int) -> Array:
    """Regular, undecided, infinite, or undefined (for which the nudge is asked)."""
    states = np.full(out.shape, REGULAR, np.int8)
    flat, marks = out.reshape(-1), states.reshape(-1)
    per_row = flat.size // max(1, len(out))
    for i, ball in enumerate(flat):
        row = i // per_row
        if first.doubts[row]:
            marks[i] = UNDECIDED
        elif ball.is_nan():
            marks[i] = OUTSIDE
        elif not ball.is_finite():
            marks[i] = POLE
        elif not (first.decided[row] or ball.is_exact() or ball.rel_accuracy_bits() >= goal):
            marks[i] = UNDECIDED
    return states


def close_domain(truth: Truth) -> None:
    """Where a value is undefined or infinite, no gradient is asked for.

    A function that says NaN outside of its domain says nothing of its derivative there; nor does 0/0,
    whose limit is another one from each side.
    """
    count = len(truth.value_states[0]) if truth.value_states else 0
    gone = np.zeros(count, bool)
    infinite = np.zeros(count, bool)
    for state in truth.value_states:
        gone |= np.isin(state.reshape(count, -1), (OUTSIDE, KINK)).any(axis=1)
        infinite |= (state.reshape(count, -1) == POLE).any(axis=1)
    for state in truth.gradient_states:
        state[infinite] = POLE
        state[gone] = OUTSIDE


def _resolve(
    source: Reals,
    points: Sequence[Array],
    cotangents: Sequence[Array],
    rows: Array,
    first: Enclosed,
    truth: Truth,
) -> None:
    """Ask the nudge about ties and holes, and write its answers into the truth."""
    here = [p[rows] for p in points], [c[rows] for c in cotangents]
    answers = nudge(source.program, *here)
    firm = nudge(source.program, *here, source.held) if any(source.held) else answers
    for row, answer, still in zip(rows.tolist(), answers, firm, strict=True):
        tie = bool(first.ties[row])
        outputs = answer.outputs
        if tie and not _is_hole(truth, row):
            outputs = _with_what_stays(answer, still, source.held, len(truth.values))
        jump = _jumps(truth, row, outputs)
        for k, (balls, states) in enumerate(zip(truth.values, truth.value_states, strict=True)):
            _settle(balls, states, row, outputs[k], only_holes=True)
        for k, (balls, states) in enumerate(
            zip(truth.gradients, truth.gradient_states, strict=True)
        ):
            settled = outputs[k + len(truth.values)]
            if tie or not jump:  # a hole where the value jumps, as 1 ** (1 / 0), has no derivative
                _settle(balls, states, row, settled, only_holes=not tie or jump)
            if jump:  # every side is right, the point itself too
                states[row] = np.where(states[row] == REGULAR, KINK, states[row])
        truth.sides[row] = [] if jump else answer.sides


def _is_hole(truth: Truth, row: int) -> bool:
    """Is something undefined at the row itself?"""
    return any(
        bool((states[row] == OUTSIDE).any())
        for states in (*truth.value_states, *truth.gradient_states)
    )


def _with_what_stays(
    answer: Answer, still: Answer, held: Sequence[bool], values: int
) -> list[Settled]:
    """What is told of a tie, but that the own gradients of what is held are asked from all of its sides."""
    stays = [False] * values + [*held, *[False] * (len(answer.outputs) - values - len(held))]
    return [
        moved if own else firm
        for moved, firm, own in zip(answer.outputs, still.outputs, stays, strict=True)
    ]


def _jumps(truth: Truth, row: int, outputs: Sequence[Settled]) -> bool:
    """Is the value at the point itself another than on its sides?"""
    for balls, states, settled in zip(truth.values, truth.value_states, outputs, strict=False):
        here = zip(
            balls[row : row + 1].reshape(-1),
            states[row : row + 1].reshape(-1),
            settled.states,
            settled.balls,
            strict=True,
        )
        for ball, state, around, limit in here:
            if state != REGULAR or around not in (LIMIT, KINK) or limit is None:
                continue
            gap = abs(ball - limit)
            if around == KINK or (gap > abs(ball) * _TOUCH and gap > _TOUCH):
                return True
    return False


def _settle(balls: Array, states: Array, row: int, settled: Any, *, only_holes: bool) -> None:
    """Replace a component by what the nudge found."""
    count = len(balls)
    all_balls, all_states = balls.reshape(count, -1), states.reshape(count, -1)  # views
    for i, (state, ball) in enumerate(zip(settled.states, settled.balls, strict=True)):
        if only_holes and all_states[row, i] != OUTSIDE:
            continue
        if state == UNDECIDED and all_states[row, i] == REGULAR:
            continue
        all_states[row, i] = state
        if ball is not None:
            all_balls[row, i] = ball
