"""Is a traced program the one that runs? Where the floats of a call say otherwise, the trace is not believed.

A trace can miss what a framework does: a view that is written to, a branch that hangs on numbers, an
operation that is spelled otherwise in the language of the trace.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import TAME, UNTRUE_TRACE, UNTRUE_VALUE
from gradcheck_cli.inputs.lattice import generic
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats, columns
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.subject.protocol import Subject
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
    """Do the rule's floats agree with the truth where its program over the reals does not, for one argument?"""
    if m.rule is None or not m.sources.over_reals or m.judged != "custom":
        return False
    differs = comparison(m).differs
    if not differs.any():
        return False
    balls, program = m.reference.balls(GRADIENTS), columns(m.rule.gradients, m.count)
    run = columns(m.floats[m.mode].custom or [], m.count)
    ends = np.cumsum([gradient.size // max(m.count, 1) for gradient in m.rule.gradients])
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
    rows = _ordinary(m)
    if len(rows) < _FEWEST:
        return False
    run = columns(m.floats[m.mode].value, m.count)[rows]
    other = _other_values(m, rows, run, UNTRUE_VALUE.value)
    if not _mostly(other):
        return False
    wide = _in_float64(m, rows)
    if wide is None:
        return _mostly(_other_values(m, rows, run, UNTRUE_TRACE.value))
    return _mostly(other & wide)


def _other_values(m: Measurements, rows: Array, run: Array, gap: float) -> Array:
    """Rows at which these values are quite other ones than the truth."""
    truth = as_floats(m.reference.balls(VALUES)[rows])
    certain = (m.reference.states(VALUES)[rows] == REGULAR) & np.isfinite(run) & np.isfinite(truth)
    size = np.maximum(np.abs(run), np.abs(truth))
    largest = size.max(axis=1, keepdims=True, initial=0)
    with np.errstate(invalid="ignore"):
        other = certain & (np.abs(run - truth) > gap * largest)
    return np.asarray(other.any(axis=1))


def _in_float64(m: Measurements, rows: Array) -> Array | None:
    """Rows at which the values are other ones in wide floats, too: what a function loses of its digits is no fault of its trace.

    None where it takes no wide floats.
    """
    wide = m.subject.in_float64()
    if wide is None:
        return None
    points, cotangents = [p[rows] for p in m.points], [c[rows] for c in m.cotangents]
    try:
        with calling_user_code():
            run = next(iter(wide.run(points, cotangents).values()), None)
    except UserCodeError:
        return None
    return (
        None
        if run is None
        else _other_values(m, rows, columns(run.value, len(rows)), UNTRUE_VALUE.value)
    )


def _mostly(rows: Array) -> bool:
    return bool(2 * rows.sum() > len(rows))


def _ordinary(m: Measurements) -> Array:
    """Base rows at which all inputs are of ordinary size; those without zeros and ties, which hide much, if there are some."""
    sizes = [np.abs(p[m.base_rows].reshape(len(m.base_rows), -1)) for p in m.points]
    tame = [(size <= TAME.value).all(axis=1) for size in sizes]
    rows = m.base_rows[np.all(tame, axis=0)] if tame else m.base_rows
    telling = rows[generic([p[rows] for p in m.points])]
    return telling if len(telling) >= _FEWEST else rows
