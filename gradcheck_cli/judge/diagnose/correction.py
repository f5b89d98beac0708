"""The one change to the rule's text that makes it right: found by trying, shown because it is verified.

Each change is tried at a few points in floats; what passes there is traced again and held to the
truth over the reals at every point that was tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from gradcheck_cli.contract import report
from gradcheck_cli.contract.limits import SCREEN
from gradcheck_cli.judge.diagnose.edits import Edit, edits
from gradcheck_cli.judge.diagnose.patch import patch
from gradcheck_cli.judge.diagnose.rewritten import rewritten, tree_of
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import LIMIT, REGULAR
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.facts import OPEN_LOOPS
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.protocol import CustomGradient
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]

_MOST_TRIES = 400
_SCREENED = 2  # points of a signature at which a change is tried first
_HUGE = 20.0
_GOAL = 40
_MOST_BITS = 1024
_MOST_STEPS = 3_000_000  # of flint, for the rows at which one change is verified


@dataclass(frozen=True, slots=True)
class Trial:
    """What a change must make right at one signature; `wrong` are rows at which the rule is wrong."""

    m: Measurements
    wrong: list[int]

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
        return np.flatnonzero(one & ~self.m.beyond)

    def screens(self, rows: Array) -> list[int]:
        """The wrong rows among these, and the ordinary ones that tell most: neither 0 nor 1, nor huge."""
        values = columns(self.m.points, self.m.count)[rows]
        special = np.isin(values, (0.0, 1.0, -1.0)).any(axis=1)
        order = np.lexsort((rows, (np.abs(values) > _HUGE).any(axis=1), special))
        plain: list[int] = rows[order][:_SCREENED].tolist()
        return [*(r for r in self.wrong if r in rows), *plain]


@dataclass(frozen=True, slots=True)
class Correction:
    """A change that makes a rule right: in words, and what to write where, if the file can be read so."""

    text: str
    path: str
    patch: report.Edit | None


def correction(trials: Sequence[Trial], gradient: CustomGradient) -> Correction | None:
    """One change for all signatures at once; None if no single one does it."""
    rows = [trial.rows() for trial in trials]
    shows = any(
        row in decided for trial, decided in zip(trials, rows, strict=True) for row in trial.wrong
    )
    if not shows or not all(trial.simple for trial in trials):
        return None
    screens = list(map(Trial.screens, trials, rows))
    for function, edit in itertools.islice(_changes(gradient), _MOST_TRIES):
        if _does(edit, function, trials, rows, screens):
            text = _in_words(edit, sum(map(len, rows)))
            return Correction(text, function.__code__.co_filename, patch(edit, function))
    return None


def _does(
    edit: Edit,
    function: FunctionType,
    trials: Sequence[Trial],
    rows: Sequence[Array],
    screens: Sequence[list[int]],
) -> bool:
    """Is the rule right with this change, at these rows of each trial?"""
    with rewritten(function, edit.tree) as runs:
        return runs and all(map(_passes, trials, screens)) and all(map(_verified, trials, rows))


def _changes(gradient: CustomGradient) -> Iterator[tuple[FunctionType, Edit]]:
    for function in gradient.rule_code():
        tree = tree_of(function)
        for edit in () if tree is None else edits(tree):
            yield function, edit


def _passes(trial: Trial, rows: Sequence[int]) -> bool:
    """Are the gradients about the truth, in the framework's own floats?"""
    m, truth = trial.m, trial.m.reference.middle(GRADIENTS)
    for row in rows:
        try:
            with calling_user_code():
                gradients = m.subject.rule_gradients_unbatched(
                    [p[row] for p in m.points], [c[row] for c in m.cotangents]
                )
        except UserCodeError:  # the change makes no sense
            return False
        flat = [np.asarray(g, np.float64).reshape(-1) for g in gradients]
        numbers = np.concatenate([np.empty(0), *flat])  # none, if the rule is not its own
        if numbers.shape != truth[row].shape:
            return False
        off = np.abs(numbers - truth[row])
        if not (off <= SCREEN.value * np.abs(truth[row]).max(initial=0)).all():
            return False
    return True


def _verified(trial: Trial, rows: Array) -> bool:
    """Are values and gradients the truth, over the reals, at all these rows?"""
    program = trial.m.subject.rule_program()
    if program is None or by_flint(program) * len(rows) > _MOST_STEPS:
        return False
    return _equal(trial.m, program, rows)


def _equal(m: Measurements, program: Program, rows: Array) -> bool:
    if not all(np.issubdtype(aval.dtype, np.inexact) for aval in program.out_avals):
        return False  # integers are no gradients
    args = [a[rows] for a in (*m.points, *m.cotangents)]
    outs = columns(enclose(program, args, goal=_GOAL, most_bits=_MOST_BITS).outs, len(rows))
    truth = np.concatenate([m.reference.balls(VALUES), m.reference.balls(GRADIENTS)], axis=1)[rows]
    if outs.shape != truth.shape:
        return False
    return all(a.is_finite() and a.overlaps(b) for a, b in zip(outs.flat, truth.flat, strict=True))


def _in_words(edit: Edit, count: int) -> str:
    change = f"line {edit.line}: `{edit.new}` instead of `{edit.old}`"
    return f"{change} (then it is the truth at all {count} probes)"
