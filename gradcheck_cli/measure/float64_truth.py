"""The truth where there are no balls (SEMANTICS G): the framework's own float64 stands in for the reals.

Its error is not bounded but looked at: the spread over two float programs and a few
moves of the input becomes the radius of the ball.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import (
    DOUBTED_BITS,
    FLOAT64_KINK,
    FLOAT64_MOVES,
    FLOAT64_SEED,
    FLOAT64_SIDES,
    FLOAT64_ULP,
    SIDES_SEED,
)
from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.measure.ball_truth import Ask, Source, Truth, close_domain, factors
from gradcheck_cli.measure.components import as_floats
from gradcheck_cli.measure.states import KINK, OUTSIDE, REGULAR, UNDECIDED
from gradcheck_cli.reals.rules.rule import elements
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Floats

Array = np.ndarray[Any, Any]
# In any of which a program may compute.
_FORMATS = tuple(map(format_of, ("float64", "float32", "float16", "bfloat16")))


@dataclass(frozen=True, slots=True)
class Wide:
    """The value with autodiff's gradient (`who` "auto") or with the rule's ("custom"), in float64.

    `digits` says what the program really computes in: a cast inside narrows it.
    """

    subject: Subject
    who: str
    digits: int
    evidence: Evidence = Evidence.FLOAT64
    over_reals: bool = False
    by_values: bool = False
    dear: bool = False
    judges_digits: bool = True
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
        """Balls around float64 results; a kink is seen by its two sides."""
        count, outputs = len(points[0]), len(cotangents)
        here = [numbers(p) for p in points]
        weights = [numbers(c) for c in cotangents]
        samples = [here, *(_moved(here) if ask.nudged else ())]
        sides = [_aside(here, sign) for sign in (-1, 1)] if ask.ties else []
        rows = [np.concatenate(same) for same in zip(*samples, *sides, strict=True)]
        repeated = [np.concatenate([c] * (len(samples) + len(sides))) for c in weights]
        results: list[list[Array]] = []
        for floats in self.subject.run(rows, repeated).values():
            results.append([*self._values(floats), *self._gradients(floats)])
        balls, states = [], []
        for k in range(len(results[0])):
            runs = np.stack([out[k].reshape(-1, count, *out[k].shape[1:]) for out in results])
            floor = self._floor(weights, runs.shape[2:] if k >= outputs else None)
            ball, state = balls_of(runs[:, : len(samples)], self.digits, floor)
            if ask.ties and k >= outputs:
                jumps = _jumps(runs[0, -2], runs[0, -1])
                state[(state == REGULAR) & jumps] = KINK
            balls.append(ball)
            states.append(state)
        truth = Truth(balls[:outputs], balls[outputs:], states[:outputs], states[outputs:])
        _value_rules(truth)
        return truth

    def _floor(self, cotangents: Sequence[Array], gradients: tuple[int, ...] | None) -> Array:
        """Below which nothing is known: what is no normal number of the dtype has fewer digits, times the cotangents."""
        least = np.array(max((f.tiny for f in _FORMATS if f.digits == self.digits), default=0.0))
        if gradients is None:
            return least
        count, *axes = gradients
        sizes = [np.abs(c.reshape(count, -1)).max(axis=1, initial=1.0) for c in cotangents]
        largest = np.max([np.ones(count), *sizes], axis=0)
        return np.asarray(largest.reshape(count, *(1 for _ in axes)) * least)

    def _values(self, floats: Floats) -> list[Array]:
        return floats.rule_value if self.who == "custom" else floats.value

    def _gradients(self, floats: Floats) -> list[Array]:
        return (floats.custom if self.who == "custom" else floats.auto) or []


def numbers(array: Array) -> Array:
    """Floats, whether they came as floats or as balls."""
    return as_floats(array) if array.dtype == object else np.asarray(array, np.float64)


def balls_of(runs: Array, digits: int, floor: Array | float = 0.0) -> tuple[Array, Array]:
    """Ball and state of each component, from its results in modes × samples; none is narrower than the floor."""
    with np.errstate(all="ignore"):
        flat = runs.reshape(-1, *runs.shape[2:])
        finite = np.isfinite(flat)
        low, high = flat.min(axis=0), flat.max(axis=0)
        middle = runs[0, 0]
        radius = np.maximum(high - middle, middle - low)
        radius = radius + 2.0 ** (DOUBTED_BITS.value - digits) * np.abs(middle) + floor
    sure = finite.all(axis=0)
    lost = np.isnan(flat[:1]).all(axis=0)
    states = np.where(sure, REGULAR, np.where(lost, OUTSIDE, UNDECIDED)).astype(np.int8)
    balls = [
        arb(m, r) if ok else arb("nan")
        for m, r, ok in zip(middle.flat, radius.flat, sure.flat, strict=True)
    ]
    return elements(balls, middle.shape), states


def _value_rules(truth: Truth) -> None:
    """A gradient that float64 loses where the value exists is an open question, not outside."""
    count = len(truth.value_states[0]) if truth.value_states else 0
    exists = np.zeros(count, bool)
    for state in truth.value_states:
        exists |= (state == REGULAR).reshape(count, -1).any(axis=1)
    for state in truth.gradient_states:
        here = exists.reshape(count, *(1,) * (state.ndim - 1))
        state[(state == OUTSIDE) & here] = UNDECIDED
    close_domain(truth)


def _moved(points: Sequence[Array]) -> list[list[Array]]:
    rng = np.random.default_rng(FLOAT64_SEED.value)
    samples = []
    for _ in range(FLOAT64_MOVES.value):
        steps = [rng.integers(-FLOAT64_ULP.value, FLOAT64_ULP.value + 1, p.shape) for p in points]
        samples.append([p + s * np.spacing(np.abs(p)) for p, s in zip(points, steps, strict=True)])
    return samples


def _aside(points: Sequence[Array], sign: int) -> list[Array]:
    rng = np.random.default_rng(SIDES_SEED.value)
    step = sign * FLOAT64_SIDES.value
    return [
        p + step * (0.5 + rng.random(p.shape)) * np.where(p == 0, 1.0, np.abs(p)) for p in points
    ]


def _jumps(before: Array, after: Array) -> Array:
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(before), np.abs(after))
        return np.asarray(np.abs(before - after) > FLOAT64_KINK.value * size)
