"""Is a traced program the one that runs? Where the floats of a call say otherwise, the trace is not believed.

A trace can miss what a framework does: a view that is written to, a branch that hangs on numbers, an
operation that is spelled otherwise in the language of the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import TAME, UNTRUE_TRACE, UNTRUE_VALUE
from gradcheck_cli.inputs.lattice import generic
from gradcheck_cli.measure.casts import narrowest
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats, columns
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.own_rounding import holds_in_float64
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Floats
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]

_FEWEST = 4
_NEARLY_ALL = 0.9  # elsewhere rounding hides it


def misshapen(subject: Subject, *, primal: bool) -> bool:
    """Has a program results of other shapes than those of the call?"""
    traces = subject.traces()
    program = traces.primal if primal else traces.rule
    shapes = [tuple(s) for s in (*subject.outputs, *(leaf.shape for leaf in subject.leaves))]
    return program is not None and [tuple(a.shape) for a in program.out_avals] != shapes


def untrue_rule(m: Measurements) -> bool:
    """Are the rule's floats others than those of its program: true where that is not, or quite others at most ordinary points?"""
    if m.rule is None or not m.sources.over_reals or m.judged != "custom":
        return False
    program = columns(m.rule.gradients, m.count)
    ends = np.cumsum([gradient.size // max(m.count, 1) for gradient in m.rule.gradients])
    if _is_true_alone(m, program, ends):
        return True
    return _untrue(m, _Results("custom", program, _gap(m, m.subject.traces().rule)))


def _is_true_alone(m: Measurements, program: Array, ends: Array) -> bool:
    """Do the rule's floats agree with the truth where its program, whose arguments end there, does not, for one of these?"""
    differs = comparison(m).differs
    if not differs.any():
        return False
    balls, run = m.reference.balls(GRADIENTS), columns(m.floats[m.mode].custom or [], m.count)
    for part in np.split(np.arange(program.shape[1]), ends[:-1]):
        rows, there = np.nonzero(differs[:, part] & np.isfinite(run[:, part]))
        places = rows, part[there]
        true, traced = as_floats(balls[places]), as_floats(program[places])
        if _only_run_is_true(true, traced, run[places], m.fmt.tiny):
            return True
    return False


def _only_run_is_true(truth: Array, traced: Array, run: Array, tiny: float) -> bool:
    """Is what runs true nearly wherever what was traced is plainly not?"""
    gap = np.abs(traced - truth)
    plain = gap > np.maximum(UNTRUE_TRACE.value * np.maximum(np.abs(traced), np.abs(truth)), tiny)
    beside = np.abs(run - truth) <= UNTRUE_TRACE.value * gap
    return bool(plain.any() and beside[plain].mean() >= _NEARLY_ALL)


def untrue_primal(m: Measurements) -> bool:
    """Are the values of the call quite other ones than those of its program, at most ordinary points?"""
    if not m.sources.primal.over_reals:
        return False
    certain = m.reference.states(VALUES) == REGULAR
    gap = _gap(m, m.subject.traces().primal)
    return _untrue(m, _Results("value", m.reference.balls(VALUES), gap, certain))


def _gap(m: Measurements, program: Program | None) -> float:
    """How far apart floats and program may be; a program that computes in narrower floats loses more of its digits."""
    narrows = program is not None and narrowest(program, m.fmt) is not None
    return UNTRUE_TRACE.value if narrows else UNTRUE_VALUE.value


@dataclass(frozen=True, slots=True)
class _Results:
    """What a program gives at all rows, beside what of the floats it is; not where it is uncertain."""

    of: str
    program: Array
    gap: float
    certain: Array | None = None

    def of_run(self, floats: Floats | None) -> Sequence[Array]:
        """These results in a run; nothing where there are none."""
        return (None if floats is None else getattr(floats, self.of)) or []

    def others(self, rows: Array, run: Sequence[Array], gap: float) -> Array:
        """Rows, out of these, at which the floats are further than this from the program, beside the largest of them."""
        floats, true = columns(run, len(rows)), as_floats(self.program[rows])
        known = np.isfinite(floats) & np.isfinite(true)
        if self.certain is not None:
            known &= self.certain[rows]
        size = np.maximum(np.abs(floats), np.abs(true))
        largest = np.where(known, size, 0).max(axis=1, keepdims=True, initial=0)
        with np.errstate(invalid="ignore"):
            return np.asarray((known & (np.abs(floats - true) > gap * largest)).any(axis=1))


def _untrue(m: Measurements, results: _Results) -> bool:
    """Are the floats of the call, and those in float64, others than the program's at most ordinary points?"""
    rows = _ordinary(m)
    if len(rows) < _FEWEST:
        return False
    run = [part[rows] for part in results.of_run(m.floats[m.mode])]
    other = results.others(rows, run, results.gap) if run else np.zeros(len(rows), bool)
    if not _mostly(other):
        return False
    wide = results.of_run(_in_float64(m, rows))
    if not wide:  # what a function loses of its digits is no fault of its trace
        return _mostly(results.others(rows, run, UNTRUE_TRACE.value))
    other &= results.others(rows, wide, results.gap)
    if not _mostly(other):
        return False
    traces = m.subject.traces()
    program = traces.rule if results.of == "custom" else traces.primal
    inputs = [a[rows] for a in (*m.points, *m.cotangents)]
    if program is None:
        return True
    return _mostly(other & ~holds_in_float64(program, inputs, wide, last=results.of == "custom"))


def _in_float64(m: Measurements, rows: Array) -> Floats | None:
    """The call in wide floats; None where it takes none."""
    wide = m.subject.in_float64()
    if wide is None:
        return None
    points, cotangents = [p[rows] for p in m.points], [c[rows] for c in m.cotangents]
    try:
        with calling_user_code():
            return next(iter(wide.run(points, cotangents).values()), None)
    except UserCodeError:
        return None


def _mostly(rows: Array) -> bool:
    return bool(2 * rows.sum() > len(rows))


def _ordinary(m: Measurements) -> Array:
    """Base rows at which all inputs are of ordinary size; those without zeros and ties, which hide much, if there are some."""
    sizes = [np.abs(p[m.base_rows].reshape(len(m.base_rows), -1)) for p in m.points]
    tame = [(size <= TAME.value).all(axis=1) for size in sizes]
    rows = m.base_rows[np.all(tame, axis=0)] if tame else m.base_rows
    telling = rows[generic([p[rows] for p in m.points])]
    return telling if len(telling) >= _FEWEST else rows
