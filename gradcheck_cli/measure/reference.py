"""The truth at some rows and around them: what floats are forgiven there, and how large its numbers are.

Forgiveness is measured, not assumed: the range of the truth at inputs a few roundings away (SEMANTICS
A2). So is the scale beside which an error matters (A3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import (
    JUMP,
    MARGIN,
    MOVE_ULP,
    MOVES,
    SCALE_FACTORS,
    SPARE_BITS,
    UNITS,
)
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.ball_truth import Ask, Source, Truth
from gradcheck_cli.measure.components import GRADIENTS, VALUES, as_floats, columns, radii
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import START_BITS, working

Array = np.ndarray[Any, Any]

_MANY_ELEMENTS = 8  # of an argument: one of them that is large says nothing of the others
_GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples, less their whole parts, are spread evenly
_SHORT_DIGITS = 40  # with the digits of a share of an ulp, a float64 holds them


@dataclass(slots=True)
class Reference:
    """The truth at some rows, with its range and scale around them, each computed once and when asked."""

    source: Source
    fmt: Format
    points: Sequence[Array]
    cotangents: Sequence[Array]
    truth: Truth
    seed: int
    _middles: dict[str, Array] = field(default_factory=dict)
    _hulls: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    _scales: dict[str, Array] = field(default_factory=dict)
    _typical: Array = field(default_factory=lambda: np.zeros(0))
    _hulled: Array | None = None
    _decided: Array = field(default_factory=lambda: np.zeros(0, bool))
    _scaled: Array | None = None

    @property
    def goal(self) -> int:
        return goal_bits(self.fmt)

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

    # -- around the rows: forgiveness and scale -----------------------------------------

    def hull(self, rows: Array, what: str, level: int) -> tuple[Array, Array]:
        """Range of the truth at the rows and a few ulp around them, the wider the higher the level."""
        count = len(self.points[0])
        if self._hulled is None:
            self._hulled = np.zeros(count, int)
            self._decided = np.zeros(count, bool)
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
        moved, distances = [], []
        for points in self.points:
            base = np.concatenate([points[rows]] * moves)
            # Subnormals may act as 0: what lies closer to it than the smallest normal is no neighbour.
            ulp = np.maximum(np.abs(self.fmt.moved(base, 1) - base), self.fmt.underflow)
            if self.source.normwise:
                ulp = np.broadcast_to(_largest(ulp), ulp.shape)
            # Reals, not floats: whole ulps of a large number may all be periods of a sine.
            steps = rng.integers(-MOVE_ULP.value * 256, MOVE_ULP.value * 256 + 1, base.shape) / 256
            distances.append(steps * ulp)
            moved.append(self._moved(base, steps, ulp))
        cotangents = [np.concatenate([c[rows]] * moves) for c in self.cotangents]
        truth = self.source.evaluate(moved, cotangents, Ask(self.goal, ties=False, nudged=False))
        self._take_in(truth, rows, moves)
        room = _jumps(truth, cotangents, distances, moves)
        low, high = self._hulls[GRADIENTS]
        with np.errstate(invalid="ignore"):
            low[rows], high[rows] = low[rows] - room, high[rows] + room

    def _take_in(self, truth: Truth, rows: Array, times: int) -> None:
        """Widen the ranges of these rows by what is true at so many moves of each."""
        for name, outs in ((VALUES, truth.values), (GRADIENTS, truth.gradients)):
            balls = columns(outs, times * len(rows))
            mid = as_floats(balls).reshape(times, len(rows), -1)
            radius = radii(balls).reshape(mid.shape)
            low, high = self._hulls[name]
            with np.errstate(invalid="ignore"):  # infinite ones say nothing
                below = np.fmin(low[rows], np.fmin.reduce(mid - radius))
                above = np.fmax(high[rows], np.fmax.reduce(mid + radius))
            with np.errstate(all="ignore"):
                margin = np.nan_to_num((above - below) * MARGIN.value, nan=0.0, posinf=0.0)
            low[rows], high[rows] = below - margin, above + margin

    def hull_of_decisions(self, rows: Array, what: str) -> tuple[Array, Array]:
        """The range with what is true where steps and comparisons fall as after a few roundings."""
        new = rows[~self._decided[rows]]
        if len(new):
            self._decided[new] = True
            by = MOVE_ULP.value * self.fmt.eps
            points, cotangents = [p[new] for p in self.points], [c[new] for c in self.cotangents]
            for source in self.source.decided_otherwise(by, self.seed):
                ask = Ask(self.goal, ties=False, nudged=False)
                self._take_in(source.evaluate(points, cotangents, ask), new, 1)
        low, high = self._hulls[what]
        return low[rows], high[rows]

    def _moved(self, base: Array, steps: Array, ulp: Array) -> Array:
        """So many ulps away, exactly: floats where float64 has the digits for it."""
        if self.fmt.digits <= _SHORT_DIGITS:
            return np.asarray(base + steps * ulp)
        with working(START_BITS):
            return np.asarray(exact(base) + exact(steps) * exact(ulp))

    def reach(self, rows: Array, what: str) -> Array:
        """How far the results of each row move a few roundings around it, at most; nothing of single elements.

        A mean that is off by one rounding shifts every component; no move of the inputs does that.
        """
        if not self.source.mixed or self._hulled is None:
            return np.zeros(len(rows))
        low, high = self._hulls[what]
        with np.errstate(invalid="ignore"):  # infinite ones say nothing
            width = np.where(self._hulled[rows, None] > 0, high[rows] - low[rows], 0.0)
        return np.asarray(np.where(np.isfinite(width), width, 0.0).max(axis=1, initial=0))

    def terms(self, rows: Array) -> Array:
        """How large the terms may be of which a gradient of 0 consists, for each component.

        A peak that is its own trough has −1/x and x/x²: of the size that gradients have where values are as usual.
        """
        points, here = columns(self.points, len(self.points[0])), self.balls(GRADIENTS)[rows]
        if points.shape[1] != here.shape[1]:  # a sample of the components
            return np.zeros(here.shape)
        values = np.abs(self.middle(VALUES))
        values = values[np.isfinite(values) & (values > 0)]
        weights = np.abs(columns(self.cotangents, len(points))[rows]).max(axis=1, initial=0)
        usual = weights * (float(np.median(values)) if values.size else 0.0)
        with np.errstate(all="ignore"):
            size = usual[:, None] / np.abs(points[rows])
        nothing = np.array([ball.contains(0) for ball in here.flat], bool).reshape(here.shape)
        return np.where(nothing & np.isfinite(size), size, 0.0)

    def unresolved(self, rows: Array) -> Array:
        """Is an exponential or a sine taken of a number that has no units left in this format?"""
        points, cotangents = [p[rows] for p in self.points], [c[rows] for c in self.cotangents]
        return self.source.exponents(points, cotangents) * self.fmt.eps > UNITS.value

    def scale(self, rows: Array, what: str) -> Array:
        """Local scale of each row (SEMANTICS A3)."""
        self._measure_new(rows)
        return self._scales[what][rows]

    def typical_scale(self, rows: Array) -> Array:
        """How large gradients mostly are around each row: at a sixteenth of the distance x⁻¹³ is 16¹³ as large."""
        self._measure_new(rows)
        return self._typical[rows]

    def _measure_new(self, rows: Array) -> None:
        count = len(self.points[0])
        if self._scaled is None:
            self._scaled = np.zeros(count, bool)
            self._scales = {name: np.zeros(count) for name in (VALUES, GRADIENTS)}
            self._typical = np.zeros(count)
        new = rows[~self._scaled[rows]]
        if len(new):
            self._scaled[new] = True
            self._measure_scale(new)

    def _measure_scale(self, rows: Array) -> None:
        factors = self._factors()
        points = [
            np.concatenate([_scaled(p[rows], factor[i], self.source.mixed) for factor in factors])
            for i, p in enumerate(self.points)
        ]
        cotangents = [np.concatenate([c[rows]] * len(factors)) for c in self.cotangents]
        truth = self.source.evaluate(points, cotangents, Ask(16, ties=False, nudged=False))
        for name, outs in ((VALUES, truth.values), (GRADIENTS, truth.gradients)):
            size = np.abs(as_floats(columns(outs, len(points[0]))))
            size[~np.isfinite(size)] = 0
            around = size.max(axis=1, initial=0).reshape(len(factors), len(rows))
            here = np.abs(self.middle(name)[rows])
            here[~np.isfinite(here)] = 0
            own = here.max(axis=1, initial=0)
            self._scales[name][rows] = np.maximum(around.max(axis=0), own)
            if name == GRADIENTS:
                close = [all(abs(np.log2(t)) <= 1 for t in factor) for factor in factors]
                self._typical[rows] = np.maximum(np.median(around[close], axis=0), own)
        floor = self._floor(rows)
        self._scales[GRADIENTS][rows] = np.maximum(self._scales[GRADIENTS][rows], floor)
        self._typical[rows] = np.maximum(self._typical[rows], floor)

    def _factors(self) -> list[tuple[float, ...]]:
        """Each argument scaled as a whole, all together and one by one."""
        count = len(self.points)
        factors = [(t,) * count for t in SCALE_FACTORS.value]
        if 1 < count <= 4 and not self.source.dear:
            factors += [
                tuple(t if j == i else 1.0 for j in range(count))
                for i in range(count)
                for t in SCALE_FACTORS.value
            ]
        return factors

    def _floor(self, rows: Array) -> Array:
        """|ȳ|·|f(x)|/|x|: what the gradient would be if the value were spread evenly; at zero over one."""
        values = np.abs(self.middle(VALUES)[rows])
        values[~np.isfinite(values)] = 0
        size = values.max(axis=1, initial=0)
        ct = np.abs(columns(self.cotangents, len(self.points[0]))[rows]).max(axis=1, initial=0)
        # Of several arguments the smallest counts: its gradient is the largest.
        sizes = [_typical_size(p[rows].reshape(len(rows), -1)) for p in self.points]
        x = np.min([np.where(size > 0, size, np.inf) for size in sizes], axis=0)
        with np.errstate(all="ignore"):
            return np.asarray(ct * size / np.where(np.isfinite(x), x, 1.0))


def _jumps(
    truth: Truth, cotangents: Sequence[Array], distances: Sequence[Array], moves: int
) -> Array:
    """How large each row's gradients are somewhere between the moves, where the value jumps there.

    By the mean value theorem a change that no gradient at the moves explains has one between them.
    Of a large gradient only a sample of the components is here, and no sum is known.
    """
    count = len(distances[0])
    values, gradients = (
        as_floats(columns(outs, count)) for outs in (truth.values, truth.gradients)
    )
    steps, weights = columns(distances, count), columns(cotangents, count)
    if values.shape != weights.shape or gradients.shape != steps.shape:
        return np.zeros((count // moves, 1))
    with np.errstate(all="ignore"):
        sums = (values * weights).sum(axis=1).reshape(moves, -1)
        explained = np.abs((gradients * steps).sum(axis=1)).reshape(moves, -1).max(axis=0)
        change = sums.max(axis=0) - sums.min(axis=0)
        jumps = change > JUMP.value * explained
        reach = np.abs(steps).reshape(moves, len(jumps), -1).max(axis=0)
        room = change[:, None] / reach
    return np.where(jumps[:, None] & np.isfinite(room), room, 0.0)


def _scaled(values: Array, factor: float, mixed: bool) -> Array:
    """Each argument times the factor; one that is all zero has no size, so it is moved instead.

    Its elements go different ways: where all are alike, what cancels has no size either. Of what
    is summed, each zero goes: beside one tiny element among zeros, weights are as good as alike.
    """
    flat = values.reshape(len(values), -1)
    zero = (
        flat == 0 if mixed else np.broadcast_to((flat == 0).all(axis=1, keepdims=True), flat.shape)
    )
    apart = 1 - np.arange(flat.shape[1]) * _GOLDEN % 1 / 2
    away = math.copysign(factor, factor - 0.6) / 8 * apart
    moved = np.where(zero & (factor != 1), away, flat * factor)
    return np.asarray(moved).reshape(values.shape)


def _typical_size(values: Array) -> Array:
    """The largest number of each row; of many numbers the middle one: an outlier is not the size of the others."""
    size = np.abs(values)
    largest = np.asarray(size.max(axis=1, initial=0))
    if values.shape[1] < _MANY_ELEMENTS:
        return largest
    place = (values.shape[1] - 1) // 2
    middle = np.partition(size, place, axis=1)[:, place]
    return np.where(middle > 0, middle, largest)


def _largest(values: Array) -> Array:
    """The largest element of each row, with the axes that the row has."""
    return np.asarray(values.max(axis=tuple(range(1, values.ndim)), keepdims=True))


def goal_bits(fmt: Format) -> int:
    """Relative accuracy in bits that the truth needs to judge this format."""
    return fmt.digits + SPARE_BITS.value
