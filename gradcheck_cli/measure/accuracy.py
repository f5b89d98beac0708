"""How good is a float? Graded against the truth and its range nearby (SEMANTICS A4, A5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import (
    HEADROOM,
    MODERATE,
    MOVES,
    NEAR_THE_END,
    ROUNDING_ULP,
    WARNING_EPS,
    WIDE,
    half_of_the_digits,
)
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.reference import Reference
from gradcheck_cli.measure.states import KINK, LIMIT, REGULAR

Array = np.ndarray[Any, Any]

_MOST_BY_DIFFERENCES = 6  # rows that are graded so

# Causes, from grave to light.
NAN, INFINITE, ZERO, DIGITS = "nan", "inf", "zero", "digits"


@dataclass(frozen=True, slots=True)
class Grades:
    """Per row: the worst severity (-1: fine), its cause, its component, its correct bits."""

    severity: Array
    cause: Array
    component: Array
    bits: Array

    def rows(self, severity: Severity) -> Array:
        return np.flatnonzero(self.severity == severity.rank)

    @property
    def fine(self) -> Array:
        return np.asarray(self.severity < 0)


def grade(truth: Reference, floats: Sequence[Array], what: str) -> Grades:
    """Grade floats against the truth; rows outside the domain are fine."""
    fmt, count = truth.fmt, len(truth.points[0])
    got, mid = columns(floats, count), truth.middle(what)
    suspect = _unforgiven(truth, got, what)
    broken = _broken(truth, got, what)
    grades = Grades(
        np.full(count, -1, np.int8),
        np.full(count, "", object),
        np.zeros(count, int),
        np.full(count, float(fmt.digits)),
    )
    rows = np.flatnonzero((suspect | broken).any(axis=1))
    if not len(rows):
        return grades
    scale = _largest(mid)[:, 0]
    heavy = suspect & np.isfinite(got) & ~_light(got, mid, fmt)
    sized = np.flatnonzero(heavy.any(axis=1))
    scale[sized] = truth.scale(sized, what)
    if (scale[sized] == 0).any():
        scale[sized] = np.where(scale[sized] > 0, scale[sized], _usual(truth, mid))
    unresolved = np.zeros(count, bool)
    if what == GRADIENTS and len(sized):
        unresolved[sized] = truth.unresolved(sized)
    reach = np.zeros(got.shape)
    reach[rows] = truth.reach(rows, what)[:, None]
    if what == GRADIENTS:
        rounding = ROUNDING_ULP.value * fmt.eps * truth.terms(rows)
        reach[rows] = np.maximum(reach[rows], rounding)
    for row in rows.tolist():
        worst: tuple[int, float] | None = None
        for k in np.flatnonzero(suspect[row] | broken[row]):
            rank, cause, bits = _severity(float(got[row, k]), float(mid[row, k]), scale[row], fmt)
            lost = unresolved[row] and _vanishes(mid[row, k], scale[row], fmt)
            if cause == DIGITS and (lost or abs(got[row, k] - mid[row, k]) <= reach[row, k]):
                rank = min(rank, Severity.NOTE.rank)
            if rank >= 0 and (worst is None or (rank, -bits) > worst):
                worst = rank, -bits
                grades.severity[row], grades.cause[row] = rank, cause
                grades.component[row], grades.bits[row] = k, bits
    return grades


def _unforgiven(truth: Reference, got: Array, what: str) -> Array:
    """Components that are apart from the truth, and from its range nearby."""
    mid, states = truth.middle(what), truth.states(what)
    room = 1.0 if what == VALUES else HEADROOM.value
    inside = (states == REGULAR) | (states == LIMIT)
    with np.errstate(all="ignore"):
        suspect = np.asarray(inside & ~_close(got, mid, mid, truth.fmt, room))
        heavy = ~_light(got, mid, truth.fmt)
        suspect &= heavy | (np.abs(got - mid) > half_of_the_digits(truth.fmt.eps) * np.abs(mid))
    if truth.source.dear:  # each move is dozens of calls
        suspect[np.flatnonzero(suspect.any(axis=1))[_MOST_BY_DIFFERENCES:]] = False
    normwise = truth.source.normwise
    for level in range(len(MOVES.value)):  # a few moves for all, more for what is no mere note
        telling = suspect if normwise else suspect & ~np.isnan(got)  # else nothing forgives NaN
        telling = telling & heavy if level else telling
        rows = np.flatnonzero(telling.any(axis=1))
        if len(rows):
            low, high = truth.hull(rows, what, level)
            with np.errstate(all="ignore"):
                suspect[rows] &= ~_close(got[rows], low, high, truth.fmt, room)
                if normwise:  # of a matrix that is singular to these digits, NaN is right
                    lost = _lost(low, high, mid[rows])
                    if what == GRADIENTS:  # at a cotangent of 0 the gradient has no range
                        values = truth.hull(rows, VALUES, level)
                        lost |= _lost(*values, truth.middle(VALUES)[rows])
                    suspect[rows] &= np.isfinite(got[rows]) | ~lost
    rows = np.flatnonzero((suspect & heavy & np.isfinite(got)).any(axis=1))
    if len(rows):
        low, high = truth.hull_of_decisions(rows, what)
        with np.errstate(all="ignore"):
            suspect[rows] &= ~_close(got[rows], low, high, truth.fmt, room)
    return suspect


def _light(got: Array, mid: Array, fmt: Format) -> Array:
    """Is an error nothing beside the largest number of its row? It is a note, if it is graded at all."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(got - mid) <= WARNING_EPS.value * fmt.eps * _largest(mid))


def _usual(truth: Reference, mid: Array) -> float:
    """How large the largest number of a row mostly is, at moderate points: beside it stands what is nothing nearby."""
    sizes = _largest(mid)[:, 0]
    largest = np.abs(columns([*truth.points, *truth.cotangents], len(mid))).max(axis=1, initial=0)
    sizes = sizes[(sizes > 0) & (largest <= MODERATE.value)]
    return float(np.median(sizes)) if sizes.size else 0.0


def _largest(mid: Array) -> Array:
    """The largest number of each row, as a column."""
    size = np.where(np.isfinite(mid), np.abs(mid), 0.0)
    return np.asarray(size.max(axis=1, keepdims=True, initial=0))


def _broken(truth: Reference, got: Array, what: str) -> Array:
    """Gradients at kinks that are no numbers.

    0/0 whose limit depends on the direction has no value: there NaN is right.
    """
    if what != GRADIENTS or truth.source.normwise:
        return np.zeros(got.shape, bool)
    small = np.abs(truth.middle(what)) <= truth.fmt.max
    return np.asarray((truth.states(what) == KINK) & ~np.isfinite(got) & small)


def _close(got: Array, low: Array, high: Array, fmt: Format, room: float) -> Array:
    """Inside the range, widened by rounding, underflow and overflow (from `room` times the largest)."""
    rounding = ROUNDING_ULP.value * fmt.eps * np.maximum(np.abs(low), np.abs(high))
    slack = rounding + fmt.underflow
    slack = np.where(np.isfinite(slack), slack, 0.0)
    inside = (got >= low - slack) & (got <= high + slack)
    top = fmt.max * (1 - ROUNDING_ULP.value * fmt.eps)
    edge = top * room
    over = ((high > edge) & (got >= top)) | ((low < -edge) & (got <= -top))
    # inf − inf behind an overflowing truth is overflow, not a fault of its own; so is an infinity of either sign
    near = min(edge, near_the_end(fmt))
    overflow = ~np.isfinite(got) & ((high > near) | (low < -near))
    return np.asarray(inside | over | overflow)


def near_the_end(fmt: Format) -> float:
    """From where on a number is made of others that may be beyond the range (SEMANTICS A5)."""
    return float(fmt.max**NEAR_THE_END.value if fmt.max > WIDE.value else fmt.max)


def _vanishes(mid: float, scale: float, fmt: Format) -> bool:
    """Is the truth nothing beside the gradients nearby, so that a float there is a rest of large terms?"""
    return abs(mid) <= half_of_the_digits(fmt.eps) * scale


def _lost(low: Array, high: Array, mid: Array) -> Array:
    """Rows in which a number's range is as wide as the largest number there is large."""
    return np.asarray((high - low > _largest(mid)).any(axis=1, keepdims=True))


def _severity(got: float, mid: float, scale: float, fmt: Format) -> tuple[int, str, float]:
    """Rank, cause and correct bits of one float beside the truth (SEMANTICS A4)."""
    if math.isnan(got):
        return Severity.ERROR.rank, NAN, 0.0
    if math.isinf(got):
        return Severity.ERROR.rank, INFINITE, 0.0
    error = abs(got - mid)
    relative = error / abs(mid) if mid else math.inf
    bits = (
        0.0
        if relative >= 1
        else min(float(fmt.digits), -math.log2(relative))
        if relative
        else float(fmt.digits)
    )
    cause = ZERO if got == 0 else DIGITS
    at_scale = error / scale if scale > 0 else math.inf
    if at_scale > half_of_the_digits(fmt.eps):
        return Severity.ERROR.rank, cause, bits
    if at_scale > WARNING_EPS.value * fmt.eps:
        return Severity.WARNING.rank, cause, bits
    if relative > half_of_the_digits(fmt.eps):
        return Severity.NOTE.rank, cause, bits
    return -1, "", bits
