"""`expect(estimator)`: the gradient of the mean over random draws, right on average only.

The rule is held to differences of the mean value: with the same draws on both sides, along a few directions,
over many keys. The mean of what is left must be zero within its own confidence interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import (
    ESTIMATOR_KEYS,
    ESTIMATOR_STEP,
    ESTIMATOR_TELLING,
    SIGMAS,
    half_of_the_digits,
)
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import Doubt, at
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements

Array = np.ndarray[Any, Any]

_DIRECTIONS = 3
_NO_KEY = "it takes no key and draws nothing: there is nothing to take the mean over"


@dataclass(frozen=True, slots=True)
class Estimator:
    name: str = "estimator"
    answers: frozenset[RuleName] = frozenset(
        {RuleName.GRADIENT_MISMATCH, RuleName.UNDECLARED_SURROGATE, RuleName.INCONCLUSIVE_GRADIENT}
    )

    def broken(self, m: Measurements, argument: str | None) -> str | Doubt | None:
        return _off_on_average(m)

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return True

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        yield None


@derived
def _off_on_average(m: Measurements) -> str | Doubt | None:
    row = _plain_row(m)
    point, cotangent = [p[row] for p in m.points], [c[row] for c in m.cotangents]
    directions = _directions(point, m.seed)
    steps = (ESTIMATOR_STEP.value, ESTIMATOR_STEP.value / 2)
    ends = [
        np.stack([x + s * h * w[i] for h in steps for w in directions for s in (1, -1)])
        for i, x in enumerate(point)
    ]
    for keys in ESTIMATOR_KEYS.value:
        drawn = m.subject.with_new_draws(keys, point, cotangent, ends)
        if drawn is None:
            return _NO_KEY
        gradients, values = drawn
        slopes = _Slopes(np.stack([_along(gradients, way) for way in directions], axis=1), *_slopes(values, cotangent))  # fmt: skip
        worst = slopes.worst
        if slopes.off[worst] > half_of_the_digits(m.fmt.eps):
            return f"at {at(m, row)}, {slopes.sentence(worst)}"
        if slopes.telling:
            return None
    return Doubt(f"at {at(m, row)}, {slopes.sentence(worst)}")


@dataclass(frozen=True, slots=True)
class _Slopes:
    """Slopes along each direction (keys first): the rule's, and the value's by a wide and a narrow step."""

    rule: Array
    wide: Array
    narrow: Array

    @property
    def spread(self) -> Array:
        gaps = self.rule - self.wide
        return np.asarray(SIGMAS.value * gaps.std(axis=0, ddof=1) / math.sqrt(len(gaps)))

    @property
    def off(self) -> Array:
        """The distance of each mean from its interval."""
        bias = 2 * np.abs((self.wide - self.narrow).mean(axis=0))
        return np.asarray(np.abs((self.rule - self.wide).mean(axis=0)) - bias - self.spread)

    @property
    def worst(self) -> int:
        return int(self.off.argmax())

    @property
    def telling(self) -> bool:
        size = max(float(np.abs(s.mean(axis=0)).max()) for s in (self.rule, self.wide))
        return bool(self.spread.max() <= ESTIMATOR_TELLING.value * size)

    def sentence(self, direction: int) -> str:
        return (
            f"over {len(self.rule)} keys, its mean slope is {self.rule.mean(axis=0)[direction]:.4g}, that of "
            f"the mean value {self.wide.mean(axis=0)[direction]:.4g} ± {self.spread[direction]:.2g}"
        )


def _plain_row(m: Measurements) -> int:
    rows = m.base_rows
    sizes = np.array([max(np.abs(p[r]).max(initial=0) for p in m.points) for r in rows])
    least = np.array([min(np.abs(p[r]).min(initial=1) for p in m.points) for r in rows])
    return int(rows[np.lexsort((rows, (least == 0) | (sizes > 2)))[0]])


def _directions(point: Sequence[Array], seed: int) -> list[list[Array]]:
    rng = np.random.default_rng(seed)
    return [[rng.uniform(0.5, 1, p.shape) * rng.choice([-1, 1], p.shape) for p in point] for _ in range(_DIRECTIONS)]  # fmt: skip


def _along(gradients: Sequence[Array], way: Sequence[Array]) -> Array:
    """Slopes in one direction, a number a key."""
    parts = [(g * w).reshape(len(g), -1).sum(axis=1) for g, w in zip(gradients, way, strict=True)]
    return np.asarray(sum(parts))


def _slopes(values: Sequence[Array], cotangent: Sequence[Array]) -> tuple[Array, Array]:
    """Central differences of the weighted value, the draws held: keys × directions, for both steps."""
    parts = [(v * c).reshape(len(v), 4 * _DIRECTIONS, -1).sum(axis=2) for v, c in zip(values, cotangent, strict=True)]  # fmt: skip
    ends = np.sum(parts, axis=0).reshape(-1, 2, _DIRECTIONS, 2)
    gaps = (ends[..., 0] - ends[..., 1]) / 2
    return gaps[:, 0] / ESTIMATOR_STEP.value, gaps[:, 1] / (ESTIMATOR_STEP.value / 2)


ESTIMATOR = Estimator()
