"""How good is a float? Forgiveness and local scale are measured, not assumed (SEMANTICS A2-A5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import (
    FLUSH,
    HEADROOM,
    MARGIN,
    MOVE_ULP,
    MOVES,
    ROUNDING_ULP,
    SCALE_FACTORS,
    SPARE_BITS,
    WARNING_EPS,
    half_of_the_digits,
)
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.ball_truth import Ask, Source, Truth
from gradcheck_cli.measure.states import KINK, LIMIT, REGULAR
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import START_BITS, working

Array = np.ndarray[Any, Any]

_MOST_BY_DIFFERENCES = 6  # rows that are graded so

# Causes, from grave to light.
NAN, INFINITE, ZERO, DIGITS = "nan", "inf", "zero", "digits"
VALUES, GRADIENTS = "values", "gradients"


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


@dataclass(slots=True)
class Reference:
    """The truth at some rows, with its forgiveness and scale, each computed once and when asked."""

    source: Source
    fmt: Format
    points: Sequence[Array]
    cotangents: Sequence[Array]
    truth: Truth
    seed: int
    _middles: dict[str, Array] = field(default_factory=dict)
    _hulls: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    _scales: dict[str, Array] = field(default_factory=dict)
    _hulled: Array | None = None
    _scaled: Array | None = None

    @property
    def goal(self) -> int:
        return goal_bits(self.fmt)

    def grade(self, floats: Sequence[Array], what: str) -> Grades:
        """Grade floats against the truth; rows outside the domain are fine."""
        count = len(self.points[0])
        got = columns(floats, count)
        mid, states = self.middle(what), self.states(what)
        room = 1.0 if what == VALUES else HEADROOM.value
        inside = (states == REGULAR) | (states == LIMIT)
        kink = states == KINK
        with np.errstate(all="ignore"):
            suspect = inside & ~_close(got, mid, mid, self.fmt, room)
        if self.source.dear:  # each move is dozens of calls
            suspect[np.flatnonzero(suspect.any(axis=1))[_MOST_BY_DIFFERENCES:]] = False
        normwise = self.source.normwise
        for level in range(len(MOVES.value)):  # a few moves for all, more for those that remain
            telling = suspect if normwise else suspect & ~np.isnan(got)  # else nothing forgives NaN
            rows = np.flatnonzero(telling.any(axis=1))
            if len(rows):
                low, high = self.hull(rows, what, level)
                with np.errstate(all="ignore"):
                    suspect[rows] &= ~_close(got[rows], low, high, self.fmt, room)
                    if normwise:  # of a matrix that is singular to these digits, NaN is right
                        suspect[rows] &= np.isfinite(got[rows]) | ~_lost(low, high, mid[rows])
        # 0/0 whose limit depends on the direction has no value: there NaN is right.
        broken = (
            (kink if what == GRADIENTS and not normwise else False)
            & ~np.isfinite(got)
            & (np.abs(mid) <= self.fmt.max)
        )
        rows = np.flatnonzero((suspect | broken).any(axis=1))
        grades = Grades(
            np.full(count, -1, np.int8),
            np.full(count, "", object),
            np.zeros(count, int),
            np.full(count, float(self.fmt.digits)),
        )
        if len(rows):
            scale = np.ones(len(rows))
            sized = (suspect[rows] & np.isfinite(got[rows])).any(axis=1)
            scale[sized] = self.scale(rows[sized], what)
            for i, row in enumerate(rows.tolist()):
                self._grade_row(
                    grades, row, got[row], mid[row], suspect[row], broken[row], scale[i]
                )
        return grades

    def _grade_row(
        self,
        grades: Grades,
        row: int,
        got: Array,
        mid: Array,
        suspect: Array,
        broken: Array,
        scale: float,
    ) -> None:
        worst: tuple[int, float] | None = None
        for k in np.flatnonzero(suspect | broken):
            rank, cause, bits = _severity(float(got[k]), float(mid[k]), scale, self.fmt)
            if rank < 0:
                continue
            key = (rank, -bits)
            if worst is None or key > worst:
                worst = key
                grades.severity[row], grades.cause[row] = rank, cause
                grades.component[row], grades.bits[row] = k, bits

    # -- views on the truth -------------------------------------------------------------

    def balls(self, what: str) -> Array:
        """All components of each row in one line."""
        return columns(
            self.truth.values if what == VALUES else self.truth.gradients, len(self.points[0])
        )

    def states(self, what: str) -> Array:
        of = self.truth.value_states if what == VALUES else self.truth.gradient_states
        return columns(of, len(self.points[0]))

    def middle(self, what: str) -> Array:
        """All components of each row as floats, turned into them once."""
        if what not in self._middles:
            self._middles[what] = as_floats(self.balls(what))
            self._middles[what].flags.writeable = False
        return self._middles[what]

    # -- forgiveness and scale ------------------------------------------------------------

    def hull(self, rows: Array, what: str, level: int) -> tuple[Array, Array]:
        """Range of the truth at the rows and a few ulp around them, the wider the higher the level."""
        count = len(self.points[0])
        if self._hulled is None:
            self._hulled = np.zeros(count, int)
            for name in (VALUES, GRADIENTS):
                mid, radius = self.middle(name), radii(self.balls(name))
                with np.errstate(invalid="ignore"):
                    self._hulls[name] = (mid - radius, mid + radius)
        for step in range(level + 1):
            new = rows[self._hulled[rows] <= step]
            if len(new):
                self._hulled[new] = step + 1
                self._extend_hulls(new, step)
        low, high = self._hulls[what]
        return low[rows], high[rows]

    def _extend_hulls(self, rows: Array, level: int) -> None:
        rng = np.random.default_rng([self.seed, level])
        moves = MOVES.value[level]
        moved = []
        for points in self.points:
            base = np.concatenate([points[rows]] * moves)
            ulp = np.abs(self.fmt.moved(base, 1) - base)
            if self.source.normwise:
                ulp = np.broadcast_to(_largest(ulp), ulp.shape)
            # Reals, not floats: whole ulps of a large number may all be periods of a sine.
            steps = rng.integers(-MOVE_ULP.value * 256, MOVE_ULP.value * 256 + 1, base.shape) / 256
            with working(START_BITS):
                moved.append(exact(base) + exact(steps) * exact(ulp))
        cotangents = [np.concatenate([c[rows]] * moves) for c in self.cotangents]
        truth = self.source.evaluate(moved, cotangents, Ask(self.goal, ties=False, nudged=False))
        for name, outs in ((VALUES, truth.values), (GRADIENTS, truth.gradients)):
            balls = columns(outs, len(moved[0]))
            mid = as_floats(balls).reshape(moves, len(rows), -1)
            radius = radii(balls).reshape(mid.shape)
            low, high = self._hulls[name]
            with np.errstate(invalid="ignore"):  # infinite ones say nothing
                below = np.fmin(low[rows], np.fmin.reduce(mid - radius))
                above = np.fmax(high[rows], np.fmax.reduce(mid + radius))
            with np.errstate(all="ignore"):
                margin = np.nan_to_num((above - below) * MARGIN.value, nan=0.0, posinf=0.0)
            low[rows], high[rows] = below - margin, above + margin

    def scale(self, rows: Array, what: str) -> Array:
        """Local scale of each row (SEMANTICS A3)."""
        count = len(self.points[0])
        if self._scaled is None:
            self._scaled = np.zeros(count, bool)
            self._scales = {name: np.zeros(count) for name in (VALUES, GRADIENTS)}
        new = rows[~self._scaled[rows]]
        if len(new):
            self._scaled[new] = True
            self._measure_scale(new)
        return self._scales[what][rows]

    def _measure_scale(self, rows: Array) -> None:
        factors = self._factors()
        points = [
            np.concatenate([_scaled(p[rows], factor[i]) for factor in factors])
            for i, p in enumerate(self.points)
        ]
        cotangents = [np.concatenate([c[rows]] * len(factors)) for c in self.cotangents]
        truth = self.source.evaluate(points, cotangents, Ask(16, ties=False, nudged=False))
        for name, outs in ((VALUES, truth.values), (GRADIENTS, truth.gradients)):
            size = np.abs(as_floats(columns(outs, len(points[0]))))
            size[~np.isfinite(size)] = 0
            nearby = size.max(axis=1, initial=0).reshape(len(factors), len(rows)).max(axis=0)
            here = np.abs(self.middle(name)[rows])
            here[~np.isfinite(here)] = 0
            self._scales[name][rows] = np.maximum(nearby, here.max(axis=1, initial=0))
        floor = self._floor(rows)
        self._scales[GRADIENTS][rows] = np.maximum(self._scales[GRADIENTS][rows], floor)

    def _factors(self) -> list[tuple[float, ...]]:
        """Each argument scaled as a whole, all together and one by one."""
        count = len(self.points)
        made = [(t,) * count for t in SCALE_FACTORS.value]
        if 1 < count <= 4 and not self.source.dear:
            made += [
                tuple(t if j == i else 1.0 for j in range(count))
                for i in range(count)
                for t in SCALE_FACTORS.value
            ]
        return made

    def _floor(self, rows: Array) -> Array:
        """|ȳ|·|f(x)|/|x|: what the gradient would be if the value were spread evenly."""
        values = np.abs(self.middle(VALUES)[rows])
        values[~np.isfinite(values)] = 0
        size = values.max(axis=1, initial=0)
        ct = np.abs(columns(self.cotangents, len(self.points[0]))[rows]).max(axis=1, initial=0)
        # Of several arguments the smallest counts: its gradient is the largest.
        sizes = [np.abs(p[rows].reshape(len(rows), -1)).max(axis=1, initial=0) for p in self.points]
        x = np.min([np.where(size > 0, size, np.inf) for size in sizes], axis=0)
        with np.errstate(all="ignore"):
            return np.where(np.isfinite(x), ct * size / x, 0.0)


def _scaled(values: Array, factor: float) -> Array:
    """Each argument times the factor; one that is all zero has no size, so it is moved instead."""
    flat = values.reshape(len(values), -1)
    zero = (flat == 0).all(axis=1) & (factor != 1)
    moved: Array = flat * factor
    moved[zero] = math.copysign(factor, factor - 0.6) / 8
    return moved.reshape(values.shape)


def _largest(values: Array) -> Array:
    """Of each row, kept as an axis of its own."""
    return np.asarray(values.max(axis=tuple(range(1, values.ndim)), keepdims=True))


def goal_bits(fmt: Format) -> int:
    """Relative accuracy in bits that the truth needs to judge this format."""
    return fmt.digits + SPARE_BITS.value


def columns(arrays: Sequence[Array], count: int) -> Array:
    """All components of a row side by side."""
    if not arrays or not count:
        return np.zeros((count, 0))
    return np.concatenate([a.reshape(count, -1) for a in arrays], axis=1)


def as_floats(balls: Array) -> Array:
    """Midpoints as float64; nan where undefined, ±inf beyond float64."""
    flat = [_float(ball) for ball in balls.reshape(-1)]
    return np.array(flat, np.float64).reshape(balls.shape)


def radii(balls: Array) -> Array:
    """Radii as float64: next to nothing where certified, what is doubted elsewhere."""
    flat = [float(b.rad()) if b.is_finite() else 0.0 for b in balls.reshape(-1)]
    return np.array(flat, np.float64).reshape(balls.shape)


def _float(ball: arb) -> float:
    return math.nan if ball.is_nan() else float(ball.mid()) if ball.is_finite() else float(ball)


def _close(got: Array, low: Array, high: Array, fmt: Format, room: float) -> Array:
    """Inside the range, widened by rounding, underflow and overflow (from `room` times the largest)."""
    rounding = ROUNDING_ULP.value * fmt.eps * np.maximum(np.abs(low), np.abs(high))
    slack = rounding + FLUSH.value * fmt.tiny
    slack = np.where(np.isfinite(slack), slack, 0.0)
    inside = (got >= low - slack) & (got <= high + slack)
    top = fmt.max * (1 - ROUNDING_ULP.value * fmt.eps)
    edge = top * room
    over = ((high > edge) & (got >= top)) | ((low < -edge) & (got <= -top))
    # inf − inf behind an overflowing truth is overflow, not a fault of its own
    overflow = np.isnan(got) & ((high > edge) | (low < -edge))
    return np.asarray(inside | over | overflow)


def _lost(low: Array, high: Array, mid: Array) -> Array:
    """Rows in which a number's range is as wide as the largest number there is large."""
    size = np.where(np.isfinite(mid), np.abs(mid), 0.0).max(axis=1, keepdims=True, initial=0)
    return np.asarray((high - low > size).any(axis=1, keepdims=True))


def _severity(got: float, mid: float, scale: float, fmt: Format) -> tuple[int, str, float]:
    """SEMANTICS A4."""
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
