"""Stress values and shapes of trouble: the points at which everything is measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import BEYOND_SEED
from gradcheck_cli.inputs.ends import in_order
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.signature import Leaf

Array = np.ndarray[Any, Any]

# In the order in which a witness is preferred: what a person would try first.
_PLAIN = (1.0, 0.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, 100.0, -100.0, 10.0, -10.0, 20.0, -20.0)
_WIDE = (
    5.0,
    30.0,
    50.0,
    80.0,
    1000.0,
    1e4,
    1e5,
    1e6,
    1e9,
    1e-1,
    1e-2,
    1e-3,
    1e-4,
    1e-5,
    1e-6,
    1e-9,
)
# Beside a constant that is compared against, where the rule may take another branch.
_AROUND = (-1 / 4, -1 / 16, 1 / 16, 1 / 4)
_CORE = (1.0, 0.0, -1.0, 100.0, -100.0, 0.5)
_MIXED = (1.0, 0.5, -0.5, 2.0, -2.0, 100.0, -100.0, 0.0, 1e-3, 10.0, -10.0, 1000.0, 3.0)


BEYOND = "beyond reach"
_BEYOND = (1e12, 1e16, 1e20, 1e30, 1e150, 1e-20, 4e-30, 1e-36, 1e-160)


@dataclass(frozen=True, slots=True)
class Points:
    """Rows of values for each leaf, exactly representable; each row has the recipe it comes from."""

    leaves: list[Array]
    recipes: list[str]

    def __len__(self) -> int:
        return len(self.recipes)

    def in_order(self, leaves: Sequence[Leaf], fmt: Format) -> Points:
        """The points, with the ends of each range in their order."""
        return Points(in_order(leaves, self.leaves, fmt), self.recipes)

    def followed_by(self, other: Points) -> Points:
        """The points of both, in this order."""
        pairs = zip(self.leaves, other.leaves, strict=True)
        return Points([np.concatenate(pair) for pair in pairs], self.recipes + other.recipes)


def generic(points: Sequence[Array]) -> Array:
    """Rows in which no number is zero and no two of an array are one: others lie on kinks of all sorts."""
    lines = [p.reshape(len(p), int(np.prod(p.shape[1:], dtype=int))) for p in points]
    flat = [np.sort(line, axis=1) for line in lines]
    apart = [(f != 0).all(axis=1) & (np.diff(f, axis=1) != 0).all(axis=1) for f in flat]
    return np.asarray(np.all(apart, axis=0))


def stress_values(fmt: Format, constants: Sequence[float], reach: float) -> list[float]:
    """One-dimensional stress values within reach, without repetition."""
    overflow = math.log(fmt.max)
    relatives = (
        overflow, overflow * 1.01, overflow / 2, -math.log(fmt.tiny), math.log(1 / fmt.eps),
        math.log(1 / fmt.eps) * 1.05, math.sqrt(fmt.max), fmt.eps, math.sqrt(fmt.eps),
        1 + fmt.eps, 1 - fmt.eps, math.pi, math.pi / 2, 2 * math.sqrt(fmt.tiny), reach,
    )  # fmt: skip
    grid = 10.0 ** np.arange(-8, math.log10(reach) + 0.01, 0.5)
    values: list[float] = list(_PLAIN)
    values += [s * v for v in _WIDE for s in (1, -1)]
    for constant in constants:
        near = fmt.moved(fmt.round([constant] * 3), [0, -1, 1])
        values += [*near.tolist(), -constant]
        values += [constant * (1 + share) for share in _AROUND]
    values += [s * v for v in relatives for s in (1, -1)]
    values += [s * float(f"{v:.3g}") for v in grid for s in (1, -1)]
    values += [-0.0]
    return _within(fmt, values, reach)


def _within(fmt: Format, values: Sequence[float], reach: float) -> list[float]:
    """SEMANTICS A5: zero, or between twice the root of tiny and the reach."""
    rounded = fmt.round(values)
    low = 2 * math.sqrt(fmt.tiny)
    kept: dict[tuple[float, float], float] = {}
    for value in rounded.tolist():
        if value == 0 or low <= abs(value) <= min(reach, fmt.max):
            kept.setdefault((value, math.copysign(1, value)), value)
    return list(kept.values())


def make_points(
    leaves: Sequence[Leaf],
    fmt: Format,
    constants: Sequence[float],
    reach: float,
    budget: int,
    seed: int,
) -> Points:
    """Up to `budget` points, the plainest first; of arrays a few more: pairs of equals, numbers of their own."""
    values = stress_values(fmt, constants, reach)
    if all(not leaf.shape for leaf in leaves):
        rows, recipes = _scalars(leaves, values, budget, seed)
    else:
        rows, recipes = _arrays(leaves, values, fmt, reach, budget, seed)
        special = _special(leaves, constants) if budget > len(PATTERNS) // 2 else []
        rows += special
        recipes += ["numbers of their own"] * len(special)
    arrays = [
        leaf.within(fmt.round(np.stack([np.asarray(row[i], np.float64) for row in rows])), fmt)
        for i, leaf in enumerate(leaves)
    ]
    return Points(in_order(leaves, arrays, fmt), recipes)


def beyond_reach(leaves: Sequence[Leaf], fmt: Format, reach: float) -> Points:
    """A few points that models do not meet: what breaks only there is a note (SEMANTICS A5)."""
    low = 2 * math.sqrt(fmt.tiny)
    declared = any(leaf.is_bounded for leaf in leaves)
    sizes = [] if declared else [s for s in _BEYOND if fmt.tiny < s < low or reach < s < fmt.max]
    rows: list[list[Any]] = []
    for size in sizes:
        if any(leaf.shape for leaf in leaves):
            rows.append(
                [
                    _short_normal(np.random.default_rng(BEYOND_SEED.value), leaf.shape) * size
                    for leaf in leaves
                ]
            )
            continue
        rows.append([np.float64(size)] * len(leaves))
        if len(leaves) == 1:
            rows.append([np.float64(-size)])
        else:  # alike, uneven, and one of them alone
            rows.append([np.float64(size * (1 - i / 4)) for i in range(len(leaves))])
            rows.append([np.float64(size), *[np.float64(1.0)] * (len(leaves) - 1)])
    arrays = [
        fmt.round(np.array([row[i] for row in rows]).reshape(len(rows), *leaf.shape))
        for i, leaf in enumerate(leaves)
    ]
    return Points(in_order(leaves, arrays, fmt), [BEYOND] * len(rows))


def _scalars(
    leaves: Sequence[Leaf], values: list[float], budget: int, seed: int
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Each argument through all values with the others plain, then mixtures."""
    count = len(leaves)
    if count == 1:
        extra = [leaves[0].centre] if leaves[0].centre is not None else []
        filled = [*extra, *values, *_between(values, budget - len(values), seed)]
        chosen = filled[:budget]
        return [(v,) for v in chosen], ["value"] * len(chosen)
    centres = [1.0 if leaf.centre is None else leaf.centre for leaf in leaves]
    rows: dict[tuple[float, ...], None] = {}
    if count == 2:
        mixed = [v for v in _MIXED if v in values]
        rows.update(dict.fromkeys(itertools.product(mixed, mixed)))
    for value in values:
        for i in range(count):
            row = list(centres)
            row[i] = value
            rows.setdefault(tuple(row))
    for value in values:
        rows.setdefault((value,) * count)
    rng = np.random.default_rng(seed)
    plain = values[: len(_PLAIN) + 2 * len(_WIDE)]
    singles = list(rows)
    random = [tuple(rng.choice(plain, count).tolist()) for _ in range(budget)]
    # What a person would try first is never left out: 100 for one argument, the others plain.
    first = singles[: min(len(_PLAIN) * count, budget // 3)]
    core = list(itertools.product(_CORE, repeat=count)) if count <= 2 else first
    half = singles[:: max(1, math.ceil(len(singles) / max(1, budget - budget // 4)))]
    mixed_rows = list(dict.fromkeys([*core, *half, *random]))[:budget]
    return list(mixed_rows), ["value"] * len(mixed_rows)


def _between(values: Sequence[float], count: int, seed: int) -> list[float]:
    """More values than the lattice has: by turns ordinary numbers, and any order of magnitude."""
    rng = np.random.default_rng(seed)
    count = max(0, count)
    top = math.log10(max(map(abs, values)))
    ordinary = np.round(rng.uniform(-120, 120, count), 2)
    wide = rng.choice([-1, 1], count) * 10.0 ** rng.uniform(-9, top, count)
    return [v for pair in zip(ordinary, wide, strict=True) for v in map(float, pair)][:count]


Pattern = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _short_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.round(rng.standard_normal(shape) * 64) / 64


def _huge(value: float) -> Pattern:
    def pattern(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        out = _short_normal(rng, shape).reshape(-1)
        if out.size:
            out[rng.integers(out.size)] = value
        return out.reshape(shape)

    return pattern


def _scaled(factor: float) -> Pattern:
    return lambda rng, shape: _short_normal(rng, shape) * factor


def _constant(value: float) -> Pattern:
    return lambda rng, shape: np.full(shape, value)


def _among(values: Sequence[float]) -> Pattern:
    return lambda rng, shape: rng.choice(values, shape)


def _steps(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.arange(1.0, int(np.prod(shape, dtype=int)) + 1).reshape(shape)


def _ties(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-1, 2, shape).astype(np.float64)


# A mean of single floats near it is off by 6e-5 of their spread, a mean of squares by a twentieth.
_OFFSET = 1e3
_MOST_PAIRS = 6
_MOST_SPECIAL = 8
_PRIME = 7919  # a prime: multiples of it, less those of a size, are all different and in no order


def _offset(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return _OFFSET + _short_normal(rng, shape)


def _zero_row(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    out = _short_normal(rng, shape)
    if out.ndim and len(out):
        out[0] = 0.0
    return out


def _positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.abs(_short_normal(rng, shape)) + 0.25


def _unit_interval(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return (rng.integers(1, 63, shape)) / 64.0


def _apart(shape: tuple[int, ...]) -> Array:
    """Positive numbers, no two of them alike, and in no order."""
    size = int(np.prod(shape, dtype=int))
    return np.asarray(((1 + np.arange(size) * _PRIME % max(1, size)) / 4).reshape(shape))


def _pair(axis: int) -> Pattern:
    """All different but for the largest number, which is there twice, side by side along the axis."""

    def pattern(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        out = _apart(shape)
        if not out.size:
            return out
        place = np.array(np.unravel_index(int(out.argmax()), shape))
        place[axis] += -1 if place[axis] else 1
        if place[axis] < shape[axis]:
            out[tuple(place)] = out.max()
        return out

    return pattern


PATTERNS: dict[str, Pattern] = {
    "normal": _short_normal,
    "steps": _steps,
    "all ones": _constant(1.0),
    "all zero": _constant(0.0),
    "ties": _ties,
    "one at 100": _huge(100.0),
    "one at -100": _huge(-100.0),
    "one at 1000": _huge(1000.0),
    "all 100": _constant(100.0),
    "all -100": _constant(-100.0),
    "positive": _positive,
    "between 0 and 1": _unit_interval,
    "times 10": _scaled(10.0),
    "times 100": _scaled(100.0),
    "times 1e-3": _scaled(1e-3),
    "zero row": _zero_row,
    "large offset": _offset,
    "one at 1e9": _huge(1e9),
    "times 1e-6": _scaled(1e-6),
    "times 1e4": _scaled(1e4),
}


def _arrays(
    leaves: Sequence[Leaf],
    values: Sequence[float],
    fmt: Format,
    reach: float,
    budget: int,
    seed: int,
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """One pattern for all leaves, then one leaf in a pattern with the others plain."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    recipes: list[str] = []

    def add(recipe: str, patterns: Sequence[Pattern]) -> None:
        row = []
        for leaf, pattern in zip(leaves, patterns, strict=True):
            numbers = np.clip(pattern(rng, leaf.shape), -reach, reach)
            row.append(np.clip(numbers, -fmt.max, fmt.max))
        rows.append(tuple(row))
        recipes.append(recipe)

    for name, pattern in PATTERNS.items():
        if pattern is not _offset or len(leaves) == 1:  # nobody's weights lie beside their inputs
            add(name, [pattern] * len(leaves))
    if len(leaves) > 1:
        for name, pattern in PATTERNS.items():
            for i in range(len(leaves)):
                base: Pattern = _positive if rng.integers(2) else _short_normal
                chosen: list[Pattern] = [base] * len(leaves)
                chosen[i] = pattern
                add(f"{leaves[i].path} {name}", chosen)
    for _ in range(4):
        add("normal", [_short_normal] * len(leaves))
        add("positive", [_positive] * len(leaves))
    for i in range(max(0, budget - len(rows))):
        stress = [values[int(n)] for n in rng.integers(0, len(values), 4)]
        add(f"stress {i}", [_among(stress)] * len(leaves))
    rows, recipes = rows[:budget], recipes[:budget]
    for i, axis in _pairs(leaves) if budget > len(PATTERNS) // 2 else ():
        rest: list[Pattern] = [_constant(1.0)] * len(leaves)
        rest[i] = _pair(axis)
        add(f"{leaves[i].path} a pair along axis {axis}", rest)
    return rows, recipes


def _special(leaves: Sequence[Leaf], constants: Sequence[float]) -> list[tuple[Any, ...]]:
    """Single numbers at values at which a function may take another way, beside arrays of which no two elements are alike."""
    values = dict.fromkeys([1.0, 0.0, *constants])
    distinct = [_apart(leaf.shape) for leaf in leaves]
    places = [(i, value) for value in values for i, leaf in enumerate(leaves) if not leaf.shape]
    return [
        (*distinct[:i], np.float64(value), *distinct[i + 1 :])
        for i, value in places[:_MOST_SPECIAL]
    ]


def _pairs(leaves: Sequence[Leaf]) -> list[tuple[int, int]]:
    """Arrays by their number, each with an axis along which two of its numbers may be equal."""
    every = [
        (i, axis)
        for i, leaf in enumerate(leaves)
        for axis, size in enumerate(leaf.shape)
        if size > 1
    ]
    return every[:_MOST_PAIRS]
