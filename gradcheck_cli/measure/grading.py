"""Grades of what the framework computed, each made once per measurement.

Where the formula itself is wrong (or was not compared, at cotangents that only test
linearity), its floats are graded against the formula: being unstable is another
fault than being wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import MUCH_WORSE
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.cotangents import HUGE, TINY, ZERO
from gradcheck_cli.measure.accuracy import INFINITE, NAN, Grades, grade, near_the_end
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.formula_gap import comparison, value_differs
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.reference import Reference
from gradcheck_cli.measure.states import KINK, LIMIT, POLE, REGULAR
from gradcheck_cli.measure.unmet import uncommon, unmet, why_uncommon
from gradcheck_cli.subject.results import AUTO, CUSTOM, VALUE

Array = np.ndarray[Any, Any]


@derived
def grades(m: Measurements, mode: str, who: str) -> Grades:
    """Grades of the value, of the rule's gradient or of autodiff's in a mode."""
    graded = _graded(m, mode, who)
    if not m.count:
        return graded
    excused = shared(m, mode, who) & (uncommon(m) | _of_no_value(m, who, near_the_end(m.fmt)))
    excused |= _of_no_value(m, who, m.fmt.max)
    light = np.minimum(graded.severity, Severity.NOTE.rank)
    return replace(graded, severity=np.where(excused, light, graded.severity))


def why_excused(m: Measurements, mode: str, who: str, row: int) -> str:
    """Why a fault at this row is a note and no error; nothing where it is one in its own right."""
    if grades(m, mode, who).severity[row] >= _graded(m, mode, who).severity[row]:
        return ""
    if _of_no_value(m, who, near_the_end(m.fmt))[row]:
        return f"the value is at the end of the range of {m.fmt.name}, or beyond"
    return why_uncommon(m, row)


@derived
def _graded(m: Measurements, mode: str, who: str) -> Grades:
    """Grades before it is asked who else has the fault."""
    graded = _without_tails(m, _grade(m, mode, who))
    return graded if who != CUSTOM else _as_autodiff_does(m, mode, graded)


@derived
def shared(m: Measurements, mode: str, who: str) -> Array:
    """Rows whose fault is the function's own, or that of the rule and of autodiff alike (SEMANTICS A4)."""
    if who == VALUE or not m.count:
        return np.ones(m.count, bool)
    graded, value = _graded(m, mode, who), _graded(m, mode, VALUE)
    no_number = np.isin(graded.cause, (NAN, INFINITE))
    of_value = value.severity >= np.maximum(graded.severity, Severity.WARNING.rank)
    of_value &= ~no_number | np.isin(value.cause, (NAN, INFINITE))
    return np.asarray(of_value | _alike(m, mode, who, graded))


def _alike(m: Measurements, mode: str, who: str, graded: Grades) -> Array:
    """Rows in which the same component is as bad by the rule as by autodiff; all, where there is no rule, nor one inside.

    Without a right digit in either, none is much better.
    """
    floats = m.floats[mode]
    if floats.auto is None or floats.custom is None:
        plain = floats.custom is None and not m.subject.traces().inner
        return np.full(m.count, plain)  # of a function without any rule nothing could be better
    rows, at = np.arange(m.count), graded.component
    custom, auto = (columns(each, m.count)[rows, at] for each in (floats.custom, floats.auto))
    own, other = (custom, auto) if who == CUSTOM else (auto, custom)
    truth = m.reference.middle(GRADIENTS)[rows, at]
    with np.errstate(all="ignore"):
        off, ours = np.abs(other - truth), np.abs(own - truth)
        lost = (truth != 0) & (off >= np.abs(truth) / 2)
        as_far = (off >= ours / 2) | (lost & (off >= ours / MUCH_WORSE.value))
    return np.asarray(~np.isfinite(other) | (as_far & np.isfinite(own)))


def _of_no_value(m: Measurements, who: str, end: float) -> Array:
    """Rows of gradients of an output that holds a number beyond this end: nobody goes on from there."""
    beyond = np.zeros(m.count, bool)
    if who == VALUE:
        return beyond
    numbers = np.isin(m.reference.states(VALUES), (REGULAR, LIMIT))
    with np.errstate(invalid="ignore"):
        large = numbers & (np.abs(m.reference.middle(VALUES)) > end)
    start, nothing = 0, ~(columns(m.cotangents, m.count) != 0).any(axis=1)
    for cotangent, (_, elements) in zip(m.cotangents, m.components(VALUES), strict=True):
        asked = nothing | (cotangent.reshape(m.count, -1) != 0).any(axis=1)
        beyond |= asked & large[:, start : start + len(elements)].any(axis=1)
        start += len(elements)
    return beyond


def _as_autodiff_does(m: Measurements, mode: str, graded: Grades) -> Grades:
    """Grades of the rule with a note, at most, for NaN at a kink or pole where autodiff gives NaN, too (SEMANTICS E4)."""
    floats = m.floats[mode]
    if floats.auto is None or floats.custom is None or not m.count:
        return graded
    rows, at = np.arange(m.count), graded.component
    both = [columns(arrays, m.count)[rows, at] for arrays in (floats.custom, floats.auto)]
    alike = np.isnan(both[0]) & np.isnan(both[1])
    singular = np.isin(m.reference.states(GRADIENTS)[rows, at], (KINK, POLE))
    note = Severity.NOTE.rank
    graded.severity[alike & singular & (graded.severity > note)] = note
    return graded


def _without_tails(m: Measurements, graded: Grades) -> Grades:
    """Grades without the notes at extreme cotangents: tails are seen at ordinary ones."""
    extreme = np.array([p.cotangent in (ZERO, TINY, HUGE) for p in m.probes])
    graded.severity[extreme & (graded.severity == Severity.NOTE.rank)] = -1
    note = Severity.NOTE.rank
    graded.severity[unmet(m) & (graded.severity > note)] = note
    size = np.abs(columns(m.cotangents, m.count))
    graded.severity[(size > m.fmt.max).any(axis=1)] = -1  # not a number of this dtype at all
    return graded


def _grade(m: Measurements, mode: str, who: str) -> Grades:
    floats = m.floats[mode]
    formula = _formula(m)
    if who == VALUE:
        against = m.reference if formula is None or not value_differs(m) else formula
        return grade(against, floats.rule_value, VALUES)
    arrays = (floats.custom if who == CUSTOM else floats.auto) or []
    if formula is None:
        return grade(m.reference, arrays, GRADIENTS)
    facts = comparison(m)
    if facts.trusts.any():  # rule and autodiff alike rest on the inner rules
        return grade(formula, arrays, GRADIENTS)
    if who == AUTO and floats.custom is not None:
        return grade(m.reference, arrays, GRADIENTS)
    by_formula = grade(formula, arrays, GRADIENTS)
    if facts.differs.any():
        return by_formula
    by_truth = grade(m.reference, arrays, GRADIENTS)
    compared = np.isin(np.arange(m.count), facts.rows)
    return Grades(
        *(
            np.where(compared, getattr(by_truth, name), getattr(by_formula, name))
            for name in ("severity", "cause", "component", "bits")
        )
    )


@derived
def _formula(m: Measurements) -> Reference | None:
    """The rule's own formula as a reference."""
    source = m.sources.rule
    if m.rule is None or source is None:
        return None
    return Reference(source, m.reference.fmt, m.points, m.cotangents, m.rule, m.seed)
