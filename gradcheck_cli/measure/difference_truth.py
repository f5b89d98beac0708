"""The last rung (SEMANTICS G): finite differences of the value, in the widest float it runs in.

Central differences at many steps; the three neighbours that agree best give the number,
and how well they agree is its radius.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import (
    DIFFERENCES_KINK,
    DIFFERENCES_ROWS,
    DIFFERENCES_TRUST,
    FIRST_STEP,
    JOINT_SEED,
)
from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.measure.ball_truth import Ask, Source, Truth, close_domain, factors
from gradcheck_cli.measure.float64_truth import balls_of, numbers
from gradcheck_cli.measure.sampled_subject import Part
from gradcheck_cli.measure.states import KINK, OUTSIDE, REGULAR, UNDECIDED
from gradcheck_cli.reals.rules.rule import elements
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.results import Sample

Array = np.ndarray[Any, Any]

_MOST_ELEMENTS = 192


def differences(subject: Subject, digits: int) -> Differences:
    """Differences of the subject; of a part they need all outputs of the whole."""
    if isinstance(subject, Part):
        return Differences(subject.whole, digits, subject.sample)
    return Differences(subject, digits)


@dataclass(frozen=True, slots=True)
class Differences:
    """The value as it is, its gradient by central differences."""

    subject: Subject
    digits: int
    sample: Sample | None = None  # of the components, where only these are judged
    evidence: Evidence = Evidence.FINITE_DIFFERENCE
    over_reals: bool = False
    by_values: bool = True
    dear: bool = True
    judges_digits: bool = False
    mixed: bool = False

    @property
    def normwise(self) -> bool:
        traces = self.subject.traces()
        return factors(traces.primal, traces.rule)

    def decided_otherwise(self, by: float, seed: int) -> Iterable[Source]:
        """Nothing is known of what is decided on the way."""
        return ()

    def run_out(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        """Rows in which a loop came to its last trip."""
        return self.subject.run_out([numbers(p) for p in points], [numbers(c) for c in cotangents])

    def exponents(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        """Nothing is known of what is computed on the way."""
        return np.zeros(len(points[0]))

    def evaluate(self, points: Sequence[Array], cotangents: Sequence[Array], ask: Ask) -> Truth:
        """Slopes for each distinct point, contracted with the cotangent of each row."""
        here = _columns([numbers(p) for p in points])
        if here.shape[1] > _MOST_ELEMENTS:
            raise Rejected(f"finite differences over {here.shape[1]} elements were not tried")
        distinct, back = np.unique(here, axis=0, return_inverse=True)
        back = back.reshape(-1)
        values, slopes, errors, kinks = self._all_slopes(distinct, points)
        lost = _lost(distinct, values, slopes, errors)
        weights = _columns([numbers(c) for c in cotangents])
        sizes = [int(np.prod(c.shape[1:], dtype=int)) for c in cotangents]
        balls, states = balls_of(values[None, None], self.digits)
        states[lost.any(axis=1)] = UNDECIDED
        gradient = (slopes[back] * weights[:, None, :]).sum(axis=2)
        radius = DIFFERENCES_TRUST.value * (errors[back] * np.abs(weights)[:, None, :]).sum(axis=2)
        bent = (kinks[back] & (weights != 0)[:, None, :]).any(axis=2)
        sure = np.isfinite(gradient) & np.isfinite(radius)
        sure &= ~(lost[back] & (weights != 0)[:, None, :]).any(axis=2)
        marks = np.where(sure, np.where(bent, KINK, REGULAR), UNDECIDED).astype(np.int8)
        gradients = [
            arb(g, r) if ok else arb("nan")
            for g, r, ok in zip(gradient.flat, radius.flat, sure.flat, strict=True)
        ]
        truth = Truth(
            _split(balls[back], sizes, cotangents),
            _split(
                elements(gradients, gradient.shape),
                [int(np.prod(p.shape[1:])) for p in points],
                points,
            ),
            _split(states[back], sizes, cotangents),
            _split(marks, [int(np.prod(p.shape[1:])) for p in points], points),
        )
        for state, output in zip(truth.value_states, truth.values, strict=True):
            state[(state == UNDECIDED) & _undefined(output)] = OUTSIDE
        close_domain(truth)
        return truth if self.sample is None else truth.sampled(self.sample)

    def _all_slopes(self, distinct: Array, points: Sequence[Array]) -> tuple[Array, ...]:
        """As `_slopes`, beside the values: NaN where there is no value, or where it would take too many."""
        values = self._values(distinct, points)
        shape = (*distinct.shape, values.shape[1])
        slopes, errors, kinks = (
            np.full(shape, np.nan),
            np.full(shape, np.nan),
            np.zeros(shape, bool),
        )
        valued = np.flatnonzero(np.isfinite(values).any(axis=1))
        kept = valued[_affordable(len(valued), 2 * distinct.shape[1] * len(self._steps()) + 2)]
        if kept.size:
            found = self._slopes(distinct[kept], values[kept], points)
            slopes[kept], errors[kept], kinks[kept] = found
        return values, slopes, errors, kinks

    def _steps(self) -> list[float]:
        return [FIRST_STEP.value * 4.0**-j for j in range(self.digits // 3)]

    def _slopes(
        self, distinct: Array, centre: Array, points: Sequence[Array]
    ) -> tuple[Array, Array, Array]:
        """For each argument element × output element: slope, error, is it a kink; `centre` are the values."""
        count, size = distinct.shape
        scale = np.where(distinct == 0, 1.0, np.abs(distinct))
        steps = self._steps()
        rows = []
        for h in steps:
            for k in range(size):
                for sign in (1, -1):
                    moved = distinct.copy()
                    moved[:, k] += sign * h * scale[:, k]
                    rows.append(moved)
        values = self._values(np.concatenate(rows), points)
        around = values.reshape(len(steps), size, 2, count, centre.shape[1])
        width = (np.array(steps)[:, None, None] * scale.T[None])[..., None]
        with np.errstate(all="ignore"):
            central = (around[:, :, 0] - around[:, :, 1]) / (2 * width)
            after = (around[:, :, 0] - centre) / width
            before = (centre - around[:, :, 1]) / width
            better = (16 * central[1:] - central[:-1]) / 15  # the error falls with the square
            near = np.abs(better[1:] - better[:-1])
            gap = np.maximum(near[1:], near[:-1])  # two may agree by chance, three seldom do
            noise = 2.0 ** (2 - self.digits) * np.abs(centre) / width[3:]
            error = np.where(np.isfinite(gap), gap + noise, np.inf)
            size = np.maximum(np.maximum(abs(better[2:]), abs(better[1:-1])), abs(better[:-2]))
            # Relative, or slopes over steps of many periods would agree on nearly nothing.
            doubt = np.where(error == 0, 0.0, error / size)
            best = np.where(np.isnan(doubt), np.inf, doubt).argmin(axis=0)[None]
            slope = np.take_along_axis(better[2:], best, 0)[0]
            error = np.take_along_axis(error, best, 0)[0]
            jump = np.abs(after - before)
            steep = np.maximum(np.abs(after), np.abs(before))
            bent = (jump > DIFFERENCES_KINK.value * steep).all(axis=0)
        bent |= self._bent_jointly(distinct, scale, steps, slope, centre, points)
        moved_axes = (1, 0, 2)
        return (
            slope.transpose(moved_axes),
            error.transpose(moved_axes),
            bent.transpose(moved_axes),
        )

    def _bent_jointly(
        self, distinct: Array, scale: Array, steps: Sequence[float], slope: Array, centre: Array,
        points: Sequence[Array],
    ) -> Array:  # fmt: skip
        """Ties (a sort of equals) have slopes along each axis that are no slope of all together."""
        rng = np.random.default_rng(JOINT_SEED.value)
        direction = (0.5 + rng.random(distinct.shape)) * rng.choice([-1.0, 1.0], distinct.shape)
        h = steps[len(steps) // 2]
        moved = np.concatenate([distinct + sign * h * scale * direction for sign in (1, -1)])
        values = self._values(moved, points).reshape(2, *centre.shape)
        expected = np.einsum("kro,rk->ro", slope, scale * direction)
        with np.errstate(all="ignore"):
            slopes = [
                sign * (value - centre) / h for value, sign in zip(values, (1, -1), strict=True)
            ]
            size = np.maximum(np.abs(expected), np.maximum(*map(np.abs, slopes)))
            off = [np.abs(side - expected) > DIFFERENCES_KINK.value * size for side in slopes]
        return np.broadcast_to((off[0] & off[1])[None], slope.shape)

    def _values(self, rows: Array, points: Sequence[Array]) -> Array:
        sizes = [int(np.prod(p.shape[1:], dtype=int)) for p in points]
        return _columns(self.subject.primal_values(_split(rows, sizes, points)))


def _affordable(count: int, each: int) -> Array:
    """Numbers of the points whose slopes are taken, evenly among all; at least one."""
    most = max(DIFFERENCES_ROWS.value // each, 1)
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).round().astype(int)


def _lost(points: Array, values: Array, slopes: Array, errors: Array) -> Array:
    """No two steps agree on anything, beside the slope or the value's own: noise, not a function."""
    with np.errstate(all="ignore"):
        scale = np.where(points == 0, 1.0, np.abs(points))
        own = np.abs(values)[:, None, :] / scale[:, :, None]
        agreed = DIFFERENCES_TRUST.value * errors <= np.maximum(np.abs(slopes), own)
        return np.asarray(np.isfinite(values)[:, None, :] & ~agreed)


def _undefined(balls: Array) -> Array:
    return np.array([not ball.is_finite() for ball in balls.flat], bool).reshape(balls.shape)


def _columns(arrays: Sequence[Array]) -> Array:
    return np.concatenate([a.reshape(len(a), -1) for a in arrays], axis=1)


def _split(flat: Array, sizes: Sequence[int], like: Sequence[Array]) -> list[Array]:
    parts = np.split(flat, np.cumsum(sizes)[:-1], axis=1)
    return [
        part.reshape(len(flat), *shape.shape[1:]) for part, shape in zip(parts, like, strict=True)
    ]
