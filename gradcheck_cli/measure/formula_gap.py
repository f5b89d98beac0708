"""Does the author's formula equal the truth over the reals? Facts only; the law judges them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import (
    ASIDE,
    CONSTANTS_REACH,
    DWARFED,
    FORMULA_EPS,
    PIECES_BITS,
    SAME_LIMIT_BITS,
    VANISHING_BITS,
    half_of_the_digits,
)
from gradcheck_cli.inputs.cotangents import BASE, OTHER
from gradcheck_cli.measure.ball_truth import Ask, Source, Truth
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats, columns
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.nudge import Side, half_to
from gradcheck_cli.measure.rounded_constants import movement
from gradcheck_cli.measure.same_floats import differs_in_the_same_floats
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE, REGULAR
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import enclose, working

Array = np.ndarray[Any, Any]

_BITS = 256
_MOST_GAPS, _FEW_GAPS = 512, 16
_MOST_MOVED = 8
_FEW_DEAR = 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows × components; how far formula and truth are apart is `gaps`."""

    rows: Array  # rows that the formula is judged on
    differs: Array  # formula and truth are apart, even with rounded constants widened
    amplifies: Array  # apart only because a rounded constant is amplified: instability
    trusts: Array  # apart from the truth, and what autodiff gives with inner rules at their word
    outside_kink: Array  # at a kink, not between the sides (one flag a row)
    finite_at_pole: Array  # the truth has a pole, the formula a number
    singular: Array  # rows with a pole, a kink or a jump
    singular_at: Array  # the same for each component
    zero_truth: Array  # per component: the truth is zero at every row
    compared: bool  # was any component of any row held to a truth at all?


@derived
def comparison(m: Measurements) -> Comparison:
    """Compare `custom_real` with `truth` at cotangents of ordinary size."""
    assert m.rule is not None
    rows = np.array(
        [
            i
            for i, p in enumerate(m.probes)
            if (p.cotangent in (BASE, OTHER) or "one-hot" in p.cotangent) and not m.beyond[i]
        ],
        int,
    )
    count = m.count
    truth, states = m.reference.balls(GRADIENTS), m.reference.states(GRADIENTS)
    formula = columns(m.rule.gradients, count)
    formula_states = columns(m.rule.gradient_states, count)
    regular = (states == REGULAR) | (states == LIMIT)
    comparable = (formula_states == REGULAR) | (formula_states == LIMIT) | (formula_states == KINK)
    apart = np.zeros(truth.shape, bool)
    with working(_BITS):
        for r in rows:
            for k in np.flatnonzero(regular[r] & comparable[r]):
                exactly = states[r, k] == REGULAR and formula_states[r, k] == REGULAR
                apart[r, k] = _apart(truth[r, k], formula[r, k], exactly)
    apart = differs_in_the_same_floats(m, apart, formula)
    # A formula without any value where the truth has one; where that is a limit alone, the floats tell of it.
    apart[rows] |= ((states == REGULAR) & (formula_states == POLE))[rows]
    amplifies = _only_by_rounding(m, apart)
    differs = apart & ~amplifies
    trusts = _as_inner_rules_say(m, differs, formula)
    differs &= ~trusts
    # Where the value jumps, as an angle does around the origin, it has no derivative either.
    valued = np.isin(m.reference.states(VALUES), (REGULAR, LIMIT)).all(axis=1, keepdims=True)
    singular = (states == POLE) | (states == KINK) | ((states == OUTSIDE) & valued)
    zero = np.array(
        [
            all(truth[r, k].contains(0) for r in rows if regular[r, k]) and regular[rows, k].any()
            for k in range(truth.shape[1])
        ],
        bool,
    )
    return Comparison(
        rows=rows,
        differs=differs,
        amplifies=amplifies,
        trusts=trusts,
        outside_kink=_outside_kink(m, rows, formula, formula_states),
        finite_at_pole=(states == POLE)
        & comparable
        & (formula_states != KINK)
        & np.isin(np.arange(count), m.base_rows)[:, None],
        singular=singular.any(axis=1),
        singular_at=singular,
        zero_truth=zero,
        compared=bool((regular & comparable)[rows].any() or apart[rows].any()),
    )


def only_at_points(m: Measurements, rows: Sequence[int], part: slice) -> bool:
    """Do formula and truth agree as soon as these inputs are moved a little, each on its own?

    Then they differ on a set of measure zero: a mask, a limit value, of which no integral hears.
    """
    truth, rule = _moved_aside(m, np.asarray(rows, int)[:_MOST_MOVED], part)
    if truth is None or rule is None:
        return False
    return all(a.overlaps(b) for a, b in zip(truth.flat, rule.flat, strict=True))


def is_the_limit(m: Measurements, rows: Array, part: slice) -> bool:
    """Is the rule at these inputs what the truth is a little beside them, to half of the digits?"""
    assert m.rule is not None
    truth, _ = _moved_aside(m, rows, part)
    if truth is None:
        return False
    here = as_floats(columns(m.rule.gradients, m.count)[rows][:, part])
    beside = as_floats(truth)
    largest = np.abs(beside).max(axis=1, keepdims=True, initial=0.0)
    return bool((np.abs(here - beside) <= half_of_the_digits(m.fmt.eps) * largest).all())


def _moved_aside(m: Measurements, rows: Array, part: slice) -> tuple[Array | None, Array | None]:
    """Truth and rule a little beside some inputs; None where one of them is not regular there."""
    assert m.sources.rule is not None
    both = [_beside(m, rows, source) for source in (m.sources.primal, m.sources.rule)]
    states = [columns(source.gradient_states, len(rows))[:, part] for source in both]
    if not all((state == REGULAR).all() for state in states):
        return None, None
    truth, rule = (columns(source.gradients, len(rows))[:, part] for source in both)
    return truth, rule


def value_jumps(m: Measurements, rows: Array) -> bool:
    """Has the function at each of these inputs a value that it has nowhere beside: a share of no weight, set to 0?"""
    rows, values = rows[:_MOST_MOVED], m.reference.middle(VALUES)
    usual = np.abs(values[np.isfinite(values) & (values != 0)])
    sides = [_beside(m, rows, m.sources.primal, side) for side in (1, -1)]
    beside = [as_floats(columns(side.values, len(rows))) for side in sides]
    with np.errstate(invalid="ignore"):  # on one side it may have no value
        gap = np.fmax(*(np.abs(values[rows] - side) for side in beside))
    room = half_of_the_digits(m.fmt.eps) * (np.median(usual) if usual.size else 1.0)
    return bool((gap > room).any(axis=1).all())


def _beside(m: Measurements, rows: Array, source: Source, side: int = 1) -> Truth:
    """A program a little beside some inputs, each moved on its own; or on their other side."""
    rng = np.random.default_rng(m.seed)
    moved = []
    with working(_BITS):
        for points in m.points:
            base = points[rows]
            step = (
                rng.choice([-1, 1], base.shape) * rng.integers(1 << 10, 1 << 11, base.shape) * side
            )
            size = np.maximum(np.abs(base), 1.0) * ASIDE.value
            moved.append(exact(base) + exact(step * size))
    ask = Ask(m.reference.goal, ties=False, nudged=False)
    return source.evaluate(moved, [c[rows] for c in m.cotangents], ask)


@derived
def value_differs(m: Measurements) -> tuple[int, int] | None:
    """The first row and output component where the rule's forward value is not the primal's."""
    assert m.rule is not None
    ours, theirs = m.reference.balls(VALUES), columns(m.rule.values, m.count)
    comparable = np.isin(m.reference.states(VALUES), (REGULAR, LIMIT))
    comparable &= np.isin(columns(m.rule.value_states, m.count), (REGULAR, LIMIT))
    if not m.sources.over_reals:  # in the same floats they must differ too
        floats = m.floats[m.mode]
        comparable &= ~_alike(
            columns(floats.value, m.count), columns(floats.rule_value, m.count), m
        )
    for row in m.base_rows:
        for k in np.flatnonzero(comparable[row]):
            a, b = ours[row, k], theirs[row, k]
            if not a.overlaps(b) and _value_matters(m, int(row), abs(a - b)):
                return int(row), int(k)
    return None


def _alike(a: Array, b: Array, m: Measurements) -> Array:
    """Floats that differ by no more than rounding."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(a - b) <= FORMULA_EPS.value * m.fmt.eps * np.abs(b))


def _value_matters(m: Measurements, row: int, gap: arb) -> bool:
    """Is the gap of two values more than the rounding of a constant, at the local scale?"""
    distance = float(as_floats(np.array([gap], object))[0])
    scale = float(m.reference.scale(np.array([row]), VALUES)[0])
    return bool(distance > FORMULA_EPS.value * m.fmt.eps * scale)


def _apart(a: arb, b: arb, exactly: bool) -> bool:
    if a.overlaps(b):
        return False
    if exactly:
        return True
    gap = abs(a - b)
    same = gap <= (abs(a) + abs(b)) * half_to(SAME_LIMIT_BITS.value)
    return not bool(same or gap < half_to(VANISHING_BITS.value))


def _only_by_rounding(m: Measurements, apart: Array) -> Array:
    """Components that meet once every rounded constant is a ball of half an ulp (SEMANTICS B2)."""
    result = np.zeros_like(apart)
    rows = np.flatnonzero(apart.any(axis=1))
    if not len(rows):
        return result
    widened = _widened(m, rows)
    if widened is None:
        return result
    truth, formula = widened
    for i, row in enumerate(rows):
        for k in np.flatnonzero(apart[row]):
            a, b = truth[i, k], formula[i, k]
            if a.is_finite() and b.is_finite() and not (a.is_exact() and b.is_exact()):
                result[row, k] = a.overlaps(b)
    return result & ~_too_far_apart(m, result)


def _too_far_apart(m: Measurements, excused: Array) -> Array:
    """Components whose balls meet only because they are wide: no constants within their half ulp bring them together."""
    result = np.zeros_like(excused)
    traces, rows = m.subject.traces(), np.flatnonzero(excused.any(axis=1))[:_MOST_MOVED]
    if m.dear or not len(rows) or traces.primal is None or traces.rule is None:
        return result
    args = [a[rows] for a in (*m.points, *m.cotangents)]
    given = slice(len(m.cotangents), None)
    moved = [movement(p, args, m.reference.goal, given) for p in (traces.primal, traces.rule)]
    reach = sum(columns(each, len(rows)) for each in moved)
    assert m.rule is not None
    truth = m.reference.balls(GRADIENTS)[rows]
    gap = np.abs(as_floats(truth - columns(m.rule.gradients, m.count)[rows]))
    result[rows] = excused[rows] & (gap > CONSTANTS_REACH.value * reach)
    return result


def _widened(m: Measurements, rows: Array) -> tuple[Array, Array] | None:
    """Gradients of primal and rule with every rounded constant a ball of half an ulp.

    Where rows are dear, the last of a few stands for the rest.
    """
    traces = m.subject.traces()
    if traces.rule is None or traces.primal is None or not m.sources.over_reals:
        return None
    few = rows[:_FEW_DEAR] if m.dear else rows
    args = [a[few] for a in (*m.points, *m.cotangents)]
    stand_ins = np.minimum(np.arange(len(rows)), len(few) - 1)
    gradients = []
    for program in (traces.primal, traces.rule):
        enclosed = enclose(program, args, goal=m.reference.goal, widen=True)
        gradients.append(columns(enclosed.outs[len(m.cotangents) :], len(few))[stand_ins])
    return gradients[0], gradients[1]


def _as_inner_rules_say(m: Measurements, differs: Array, formula: Array) -> Array:
    """Components where the formula is what autodiff through the user's inner rules gives (SEMANTICS D1)."""
    result = np.zeros_like(differs)
    program = m.subject.traces().trusting
    rows = np.flatnonzero(differs.any(axis=1))
    if program is None or not len(rows):
        return result
    args = [a[rows] for a in (*m.points, *m.cotangents)]
    enclosed = enclose(program, args, goal=m.reference.goal)
    trusting = columns(enclosed.outs[len(m.cotangents) :], len(rows))
    for i, row in enumerate(rows):
        for k in np.flatnonzero(differs[row]):
            result[row, k] = bool(trusting[i, k].overlaps(formula[row, k]))
    return result


@derived
def gaps(m: Measurements) -> Array:
    """|custom_real − truth| at the typical scale around, where they differ; of very many rows, at some spread over them."""
    assert m.rule is not None
    differs, truth = comparison(m).differs, m.reference.balls(GRADIENTS)
    formula = columns(m.rule.gradients, m.count)
    gap = np.zeros(differs.shape)
    rows = np.flatnonzero(differs.any(axis=1))
    most = _FEW_GAPS if m.dear else _MOST_GAPS
    rows = rows[:: max(1, len(rows) // most)]
    if not len(rows):
        return gap
    scale = _scales(m, rows)
    for i, row in enumerate(rows):
        for k in np.flatnonzero(differs[row]):
            size = abs(truth[row, k] - formula[row, k])
            distance = float(as_floats(np.array([size], object))[0])
            if distance < m.fmt.tiny:
                continue  # below the smallest normal, nothing is promised
            if not np.isfinite(distance):
                gap[row, k] = _beyond_float64(size, truth[row, k], formula[row, k])
            else:
                gap[row, k] = distance / scale[i, k] if scale[i, k] > 0 else np.inf
    return gap


def _scales(m: Measurements, rows: Array) -> Array:
    """How large the gradients mostly are; those of an argument that is dwarfed by others are measured by themselves.

    A volume hangs on a pressure by 1e-12, and on a temperature by 1e-7. What is zero nearly everywhere has no
    scale of its own.
    """
    whole = m.reference.typical_scale(rows)[:, None]
    size = np.abs(m.reference.middle(GRADIENTS))
    size = np.where(np.isfinite(size) & (m.reference.states(GRADIENTS) == REGULAR), size, 0.0)
    scales = np.broadcast_to(whole, (len(rows), size.shape[1])).copy()
    start, parts = 0, m.components(GRADIENTS)
    for _, elements in parts if len(parts) > 1 else ():
        part = slice(start, start + len(elements))
        start = part.stop
        own = size[:, part].max(axis=1, initial=0.0)
        usual = float(np.median(own[m.base_rows])) if len(m.base_rows) else 0.0
        alone = np.maximum(own[rows], usual)[:, None]
        if usual > 0:
            scales[:, part] = np.where(alone < DWARFED.value * whole, alone, whole)
    return scales


def _beyond_float64(distance: arb, truth: arb, formula: arb) -> float:
    """A gap that no float64 holds, beside the larger of both: what overflows has no other scale."""
    with working(_BITS):
        share = distance / abs(truth).max(abs(formula))
    return float(share.mid()) if share.is_finite() else np.inf


def _outside_kink(m: Measurements, rows: Array, formula: Array, states: Array) -> Array:
    """At a kink of one argument, the rule must lie between what it is on the sides.

    With several arguments the sides along a few directions prove nothing: relu(x) − relu(y)
    at (0, 0) has slope 1 on both sides of (1, −1), and the right convention slope 0.
    """
    result = np.zeros(m.count, bool)
    kinks = (m.reference.states(GRADIENTS) == KINK).any(axis=1)
    for row in rows:
        if kinks[row] and (states[row] == REGULAR).all() and formula.shape[1] == 1:
            with working(_BITS):
                result[row] = _outside_box(m.truth.sides.get(int(row), []), formula[row])
    return result


def _outside_box(sides: Sequence[Side], formula: Array) -> bool:
    """Is a component of the rule outside the range of that component over all sides?"""
    around = [
        np.concatenate(list(g))
        for side in sides
        for g in (side.before, side.after)
        if g is not None
    ]
    for k, ours in enumerate(formula if around else ()):
        slopes = [g[k] for g in around]
        low = functools.reduce(lambda a, b: a.min(b), slopes)
        high = functools.reduce(lambda a, b: a.max(b), slopes)
        slack = (abs(low) + abs(high)) * half_to(PIECES_BITS.value) + half_to(VANISHING_BITS.value)
        if ours < low - slack or ours > high + slack:
            return True
    return False


def ratio(truth: Sequence[arb], formula: Sequence[arb]) -> arb | None:
    """The constant c with formula = c·truth at all of these, if there is one."""
    every = list(zip(truth, formula, strict=True))
    pairs = [(t, f) for t, f in every if not t.contains(0)]
    if len(pairs) < 2 or any(t.is_zero() and not f.contains(0) for t, f in every):
        return None
    with working(_BITS):
        quotients = [f / t for t, f in pairs]
        first = functools.reduce(lambda a, b: a if a.rad() < b.rad() else b, quotients)
        return first if all(q.overlaps(first) for q in quotients) else None
