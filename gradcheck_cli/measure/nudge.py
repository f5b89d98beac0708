"""Kinks, holes and poles by an exact nudge (SEMANTICS E): x ± 2⁻²⁰⁰⁰·d and x ± 2⁻⁴⁰⁰⁰·d."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import (
    ASIDE,
    BESIDE_A_WAY,
    DECAY_BITS,
    DIRECTIONS,
    DIRECTIONS_OF_MANY,
    LIMIT_BITS,
    MORE_WAYS,
    MOST_TIED,
    NUDGE_SEED,
    NUDGES,
    POLE_GROWTH,
    VANISHING_BITS,
)
from gradcheck_cli.measure.states import KINK, LIMIT, OUTSIDE, POLE, UNDECIDED
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.rules.rule import elements
from gradcheck_cli.reals.walk import walk

Array = np.ndarray[Any, Any]

FAR, NEAR = NUDGES.value
_SIGNS = (-1, 1)
_BITS = {FAR: 6144, NEAR: 12288}
_ASIDE_BITS = 256
_PRODUCT_BITS = 2048  # products of what was moved aside are exact: what is equal there stays equal


Way = list[list[tuple[str, arb | None]]]  # of each output, of each component: what it tends to


@dataclass(frozen=True, slots=True)
class Side:
    """One direction: the gradients just before and just after the point (None: undefined there)."""

    direction: list[Array]
    before: list[Array] | None
    after: list[Array] | None


@dataclass(frozen=True, slots=True)
class Settled:
    """One output: a state and a ball for each component."""

    states: list[int]
    balls: list[arb | None]


@dataclass(frozen=True, slots=True)
class Answer:
    outputs: list[Settled]
    sides: list[Side]


def nudge(
    program: Program,
    points: Sequence[Array],
    cotangents: Sequence[Array],
    held: Sequence[bool] = (),
) -> list[Answer]:
    """What happens around each row, along generic joint directions; arguments that are `held` stay where they are."""
    directions = _moving([p.shape[1:] for p in points], held)
    moves = [[sign * d for d in direction] for direction in directions for sign in _SIGNS]
    ways = _ways(program, points, cotangents, moves)
    for row, of_row in enumerate(ways):
        alone = _only_one(of_row)
        if alone is not None and len(moves) > len(
            _SIGNS
        ):  # what one way in says is no limit from all sides
            here, there = ([a[row : row + 1] for a in arrays] for arrays in (points, cotangents))
            of_row.extend(_ways(program, here, there, _others_like(moves[alone]))[0])
    with working(_BITS[NEAR]):
        return [_answer(of_row, directions, len(cotangents)) for of_row in ways]


def _ways(
    program: Program,
    points: Sequence[Array],
    cotangents: Sequence[Array],
    moves: Sequence[Sequence[Array]],
) -> list[list[Way]]:
    """What each row tends to along each of these moves."""
    count = len(points[0])
    runs: dict[int, list[Array]] = {}
    for scale in (FAR, NEAR):
        with working(_BITS[scale]):
            step = half_to(scale)
            rows = [
                [
                    exact(p) + exact(np.broadcast_to(d, p.shape)) * step
                    for p, d in zip(points, move, strict=True)
                ]
                for move in moves
            ]
            batch = count * len(rows)
            args = [np.concatenate([row[i] for row in rows]) for i in range(len(points))]
            args += [exact(np.concatenate([c] * len(rows))) for c in cotangents]
            outs = walk(program, Balls(batch), args)
            outs = [np.broadcast_to(o, (batch, *o.shape[1:])) for o in outs]
            runs[scale] = [o.reshape(len(rows), count, -1) for o in outs]
    with working(_BITS[NEAR]):
        return [
            [
                [
                    [_limit(a, b) for a, b in zip(far[n, row], near[n, row], strict=True)]
                    for far, near in zip(runs[FAR], runs[NEAR], strict=True)
                ]
                for n in range(len(moves))
            ]
            for row in range(count)
        ]


def _only_one(ways: Sequence[Way]) -> int | None:
    """The one move that stays inside the domain, if there is one component for which no other does."""
    for k, output in enumerate(ways[0]):
        for i in range(len(output)):
            inside = [n for n, way in enumerate(ways) if way[k][i][0] != "outside"]
            if len(inside) == 1:
                return inside[0]
    return None


def _others_like(move: Sequence[Array]) -> list[list[Array]]:
    """Moves close to this one, each number by its own: they stay inside as well, as a rule."""
    rng = np.random.default_rng(NUDGE_SEED.value)
    return [
        [d * (1 + BESIDE_A_WAY.value * rng.integers(0, 1 << 16, d.shape) / (1 << 16)) for d in move]
        for _ in range(MORE_WAYS.value)
    ]


def half_to(bits: int) -> arb:
    """2⁻ᵇ as a ball, also far below what floats have."""
    return arb(2) ** -bits


def defined_nearby(program: Program, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
    """Rows of which some output is undefined here and defined a little aside.

    Cheap, and enough to leave points alone that lie outside the domain.
    """
    count = len(points[0])
    if not count:
        return np.zeros(0, bool)
    directions = _directions([p.shape[1:] for p in points])[:2]
    samples = [(d, sign * ASIDE.value) for d in directions for sign in (-1, 1)] + [
        (directions[0], 0.0)
    ]
    with working(_ASIDE_BITS):
        args = [
            np.concatenate(
                [exact(p) + exact(np.broadcast_to(d[i] * h, p.shape)) for d, h in samples]
            )
            for i, p in enumerate(points)
        ]
        args += [exact(np.concatenate([c] * len(samples))) for c in cotangents]
        batch = count * len(samples)
        outs = walk(program, Balls(batch), args)
        lost = np.concatenate(
            [
                np.array([b.is_nan() for b in np.broadcast_to(o, (batch, *o.shape[1:])).reshape(-1)])
                .reshape(len(samples), count, -1)
                for o in outs
            ],
            axis=2,
        )  # fmt: skip
    nearby: Array = (lost[-1] & ~lost[:-1].all(axis=0)).any(axis=1)
    return nearby


def idle_ties(
    program: Program,
    points: Sequence[Array],
    cotangents: Sequence[Array],
    here: Sequence[Array],
    held: Sequence[bool] = (),
) -> Array:
    """Rows at which all results a little to either side, along a generic direction, are those here.

    What is tied there decides nothing: sums of masked entries that are always zero, say.
    """
    count = len(points[0])
    if not count:
        return np.zeros(0, bool)
    direction = _moving([p.shape[1:] for p in points], held)[0]
    with working(_PRODUCT_BITS):
        step = half_to(_ASIDE_BITS)
        args = [
            np.concatenate(
                [exact(p) + exact(np.broadcast_to(s * d, p.shape)) * step for s in (-1, 1)]
            )
            for p, d in zip(points, direction, strict=True)
        ]
        args += [exact(np.concatenate([c, c])) for c in cotangents]
        outs = walk(program, Balls(2 * count), args)
        alike = np.ones(count, bool)
        for out, now in zip(outs, here, strict=True):
            sides = np.broadcast_to(out, (2 * count, *out.shape[1:])).reshape(2, count, -1)
            rows = zip(*sides, now.reshape(count, -1), strict=True)
            alike &= np.array([all(map(_unmoved, *row)) for row in rows], bool)
    return alike


def _unmoved(before: arb, after: arb, here: arb) -> bool:
    room = half_to(_ASIDE_BITS // 2) * (1 + abs(here))
    return bool(abs(before - after) < room and here.overlaps(after + arb(0, room)))


def evaluations(shapes: Sequence[tuple[int, ...]]) -> int:
    """Walks that one row costs: each direction, both ways, at both scales."""
    return 4 * len(_directions(shapes))


def _moving(shapes: Sequence[tuple[int, ...]], held: Sequence[bool]) -> list[list[Array]]:
    """The directions, with nothing for what is held: between 0 and 1 a mask has no numbers."""
    still = held or [False] * len(shapes)
    return [
        [d * 0 if stays else d for d, stays in zip(direction, still, strict=True)]
        for direction in _directions(shapes)
    ]


def _directions(shapes: Sequence[tuple[int, ...]]) -> list[list[Array]]:
    """Generic directions; a single number has only one."""
    size = sum(int(np.prod(s, dtype=int)) for s in shapes)
    if size == 1:
        return [[np.ones(s) for s in shapes]]
    rng = np.random.default_rng(NUDGE_SEED.value)
    directions = []
    for _ in range((DIRECTIONS if size <= MOST_TIED.value else DIRECTIONS_OF_MANY).value):
        directions.append([rng.choice([-1, 1], s) * _sizes(rng, s) for s in shapes])
    return directions


def _sizes(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Generic numbers, and each argument as a whole sometimes much smaller than the others."""
    whole = 2.0 ** -rng.choice([0, 0, 8, 16])
    return np.asarray(whole * (1 + rng.integers(0, 1 << 16, shape) / (1 << 16)))


def _answer(ways: Sequence[Way], directions: Sequence[list[Array]], outputs: int) -> Answer:
    settled = []
    for k, output in enumerate(ways[0]):
        told = [way[k] if k < outputs else _inside(way, k, outputs) for way in ways]
        components = [_together([of[i] for of in told]) for i in range(len(output))]
        settled.append(Settled([c[0] for c in components], [c[1] for c in components]))
    limits = [[[v for _, v in output] for output in way[outputs:]] for way in ways]
    sides = [
        Side(direction, _whole(limits[2 * d]), _whole(limits[2 * d + 1]))
        for d, direction in enumerate(directions)
    ]
    return Answer(settled, sides)


def _inside(way: Way, k: int, outputs: int) -> list[tuple[str, arb | None]]:
    """A gradient along a move; where it is undefined although all values are there, nothing is known of it.

    √(x²) of what is exactly 0 on this side is as smooth there as can be, and its chain rule is 0/0.
    """
    if any(told == "outside" for output in way[:outputs] for told, _ in output):
        return way[k]
    return [("open", None) if told == "outside" else (told, v) for told, v in way[k]]


def _whole(limits: Sequence[Sequence[arb | None]]) -> list[Array] | None:
    """All components, or nothing if one of them has no limit on this side."""
    if any(v is None for leaf in limits for v in leaf):
        return None
    return [elements(list(leaf), (len(leaf),)) for leaf in limits]


def _limit(far: arb, near: arb) -> tuple[str, arb | None]:
    """What a component tends to as the nudge shrinks."""
    if far.is_nan() or near.is_nan():
        return ("outside", None) if near.is_nan() else ("open", None)
    if not near.is_finite() or not far.is_finite():
        return "pole", None
    small = half_to(VANISHING_BITS.value)
    if abs(near) < small and abs(far) < small:
        return "limit", arb(0)
    gap = abs(near - far)
    if gap < abs(near) * half_to(LIMIT_BITS.value):
        return "limit", near
    if abs(near) < abs(far) * half_to(DECAY_BITS.value):
        return "limit", arb(0)
    if abs(near) > abs(far) * POLE_GROWTH.value:
        return "pole", None
    return "open", None


def _together(found: Sequence[tuple[str, arb | None]]) -> tuple[int, arb | None]:
    """One verdict from all sides."""
    inside = [(s, v) for s, v in found if s != "outside"]
    if not inside:
        return OUTSIDE, None
    if any(s == "pole" for s, _ in inside):
        return POLE, None
    if any(s == "open" for s, _ in inside):
        return UNDECIDED, None
    limits = [v for _, v in inside if v is not None]
    first = limits[0]
    if all(_same(first, v) for v in limits[1:]):
        return LIMIT, first
    return KINK, first


def _same(a: arb, b: arb) -> bool:
    small = half_to(VANISHING_BITS.value)
    return bool(abs(a - b) < (abs(a) + abs(b)) * half_to(LIMIT_BITS.value) or abs(a - b) < small)
