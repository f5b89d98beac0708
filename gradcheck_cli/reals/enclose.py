"""Precision doubles until every question is decided, or until more bits cannot help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, ctx

from gradcheck_cli.contract import limits
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.balls.domain import Flags
from gradcheck_cli.reals.cost import by_flint, worth_compiling, worth_pairs
from gradcheck_cli.reals.float64.certify import certify
from gradcheck_cli.reals.pairs.certify import certify_now
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.rules.rule import elements
from gradcheck_cli.reals.walk import NoRealMeaning, walk

Array = np.ndarray[Any, Any]

START_BITS = limits.START_BITS.value
MOST_BITS = limits.MOST_BITS.value
# What is undefined at three precisions is undefined: only a nudge can tell more.
_UNDEFINED_ROUNDS = 2
# Doubts that survive so many bits are exact ties in disguise.
_MOST_BITS_FOR_DOUBTS = limits.TIE_BITS.value
# Beyond this relative accuracy, float64 balls decide too little to be asked.
_FLOAT_BITS = 42
# A goal has bits to spare; float64 balls may leave so many of them open (SEMANTICS C2).
_SPARE_BITS = 12
# What one program's rows may cost in steps of flint, at the lowest precision: a minute; and
# what they may where the answer only forgives.
_MOST_STEPS, _MOST_LOOSE_STEPS = limits.WALK_STEPS.value, 6_000_000
_FEWEST_ROWS = 4
# From so many steps for one row, it is dear: a tenth of a second and more.
DEAR = limits.DEAR_STEPS.value
# Balls that a walk holds at once: a gigabyte.
_MOST_HELD = 8_000_000
_UNKNOWN = arb("nan")
_LEAST_BITS = 12
# Below this, a ball around zero is narrower than any float's smallest number.
_NOTHING = -1400


@contextmanager
def working(bits: int) -> Iterator[None]:
    """Flint's precision is global; this keeps it local."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


@dataclass(slots=True)
class Enclosed:
    """Balls for each output (rows first), and what is known about each row."""

    outs: list[Array]
    ties: Array
    decided: Array
    doubts: Array
    estimated: Array  # decided by midpoints that agree at p and 2p bits: not certified
    bits: int


def enclose(
    program: Program,
    args: Sequence[Any],
    *,
    goal: int,
    widen: bool = False,
    most_bits: int = MOST_BITS,
    loose: bool = False,
) -> Enclosed:
    """Walk all rows; walk those again with twice the bits whose balls are too wide.

    `goal` is the relative accuracy in bits that counts as decided. Where there is much to do,
    float64 balls come first, and only rows that they leave open go on.
    If `loose`, what a program that is dear leaves open beside its largest number is let be.
    """
    count = len(args[0])
    outs = [np.empty((count, *aval.shape), dtype=object) for aval in program.out_avals]
    ties, decided, doubts, estimated = (np.zeros(count, bool) for _ in range(4))
    undefined = np.zeros(count, int)
    pending = np.arange(count)
    if not widen and goal <= _FLOAT_BITS and worth_pairs(program, count):
        float_goal = max(goal - _SPARE_BITS, _LEAST_BITS)
        loosely = loose and by_flint(program) > DEAR
        decided, ties = _by_floats(program, args, outs, float_goal, loosely)
        pending = np.flatnonzero(~decided)
    pending, unpaid = _affordable(program, pending, _MOST_LOOSE_STEPS if loose else _MOST_STEPS)
    for out in outs:
        out[unpaid] = _UNKNOWN
    doubts[unpaid] = True
    bits = START_BITS
    used = bits
    while len(pending) and bits <= most_bits:
        used = bits
        with working(bits):
            results, flags = _walked(program, args, pending, widen=widen)
            for out, result in zip(outs, results, strict=True):
                out[pending] = result
            tight, holes = _judge(results, goal)
        ties[pending] = flags.ties
        doubts[pending] = flags.doubts | flags.endless
        decided[pending] = tight & ~doubts[pending]
        undefined[pending[holes]] += 1
        hopeless = flags.endless | (holes & (undefined[pending] > _UNDEFINED_ROUNDS))
        if bits >= _MOST_BITS_FOR_DOUBTS:
            hopeless = hopeless | flags.doubts
        if widen:
            hopeless = np.ones(len(pending), bool)  # these balls are meant to be wide
        pending = pending[~(decided[pending] | hopeless)]
        bits *= 2
    if len(pending) and not widen:
        agree, tied = _by_points(program, args, pending, outs, goal, most_bits)
        estimated[pending] = agree
        ties[pending] |= agree & tied
    decided |= estimated
    return Enclosed(outs, ties, decided, doubts, estimated, used)


def _affordable(program: Program, pending: Array, steps: int) -> tuple[Array, Array]:
    """Rows that are walked, and rows of a program so dear that they would cost too much."""
    cost = by_flint(program)
    most = max(_FEWEST_ROWS, steps // cost) if cost > DEAR else len(pending)
    return pending[:most], pending[most:]


def _walked(
    program: Program, args: Sequence[Any], rows: Array, *, widen: bool
) -> tuple[list[Array], Flags]:
    """A walk of these rows, in chunks that memory holds."""
    size = max(1, _MOST_HELD // max(1, program.numbers()))
    parts, flags = [], []
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size]
        domain = Balls(len(chunk), widen=widen)
        balls = [a[chunk] if a.dtype == object else exact(a[chunk]) for a in args]
        results = walk(program, domain, balls)
        parts.append([np.broadcast_to(r, (len(chunk), *r.shape[1:])) for r in results])
        flags.append(domain.flags)
    if len(parts) == 1:
        return parts[0], flags[0]
    return [np.concatenate(column) for column in zip(*parts, strict=True)], Flags(
        *(
            np.concatenate([getattr(f, name) for f in flags])
            for name in ("ties", "doubts", "endless")
        )
    )


def _by_floats(
    program: Program, args: Sequence[Any], outs: Sequence[Array], goal: int, loose: bool
) -> tuple[Array, Array]:
    """Rows that float64 balls decide, written into `outs`; which of these met a tie."""
    middles, radii = zip(*map(_pairs, args), strict=True)
    by = certify if worth_compiling(program, len(args[0])) else certify_now
    try:
        certified = by(program, middles, radii)
    except NoRealMeaning:
        return np.zeros(len(args[0]), bool), np.zeros(len(args[0]), bool)
    good = certified.narrow(goal, loose=loose)
    for out, mid, rad in zip(outs, certified.mids, certified.rads, strict=True):
        chosen = zip(mid[good].flat, rad[good].flat, strict=True)
        out[good] = elements([arb(m, r) for m, r in chosen], mid[good].shape)
    return good, good & certified.ties


def _pairs(args: Array) -> tuple[Array, Array]:
    """Middles and radii of exact floats, or around flint's balls."""
    if args.dtype != object:
        return args, np.zeros(args.shape)
    mids = np.array([float(b.mid()) for b in args.flat]).reshape(args.shape)
    rads = np.array([float(b.rad()) for b in args.flat]).reshape(args.shape)
    inexact = np.array([float(b.mid()) != b.mid() for b in args.flat]).reshape(args.shape)
    return mids, rads * (1 + 2.0**-50) + np.where(inexact, np.abs(mids) * 2.0**-52, 0.0)


def _by_points(
    program: Program, args: Sequence[Any], rows: Array, outs: Sequence[Array], goal: int, most: int
) -> tuple[Array, Array]:
    """SEMANTICS C3: where balls are lost, plain multiprecision that is the same at p and 2p bits.

    Radii are dropped at each step: the middle of a ball that has been lost means nothing.
    Rows that agree are written into `outs`, as accurate as they agreed; which do, and which are tied at both.
    """
    runs = []
    tied = np.ones(len(rows), bool)
    for bits in (most // 2, most):
        with working(bits):
            domain = Balls(len(rows), points=True)
            balls = [a[rows] if a.dtype == object else exact(a[rows]) for a in args]
            results = walk(program, domain, balls)
            runs.append(
                [
                    np.broadcast_to(r, (len(rows), *r.shape[1:])).reshape(len(rows), -1)
                    for r in results
                ]
            )
            tied &= domain.flags.ties
    before, after = (np.concatenate(run, axis=1) for run in runs)
    with working(most):
        agree = np.array(
            [
                all(_meet(a, b, goal) for a, b in zip(old, new, strict=True))
                for old, new in zip(before, after, strict=True)
            ],
            bool,
        ) & ~(domain.flags.endless | domain.flags.doubts)
        for out, result in zip(outs, runs[1], strict=True):
            points = np.asarray(_POINTS(result[agree], goal), dtype=object)
            out[rows[agree]] = points.reshape(-1, *out.shape[1:])
    return agree, tied


def _meet(old: arb, new: arb, goal: int) -> bool:
    if old.is_nan() or new.is_nan() or not new.is_finite():
        return False
    gap = abs(old - new)
    return bool(gap <= abs(new) * arb(2) ** -goal or gap < arb(2) ** _NOTHING)


def _point(middle: arb, goal: int) -> arb:
    """A number that is as accurate as two precisions agreed."""
    return arb(middle.mid(), (abs(middle) * arb(2) ** -goal).max(arb(2) ** _NOTHING))


_POINTS = np.frompyfunc(_point, 2, 1)


def _judge(results: Sequence[Array], goal: int) -> tuple[Array, Array]:
    """For each row: is every ball narrow enough, and is any undefined?"""
    count = len(results[0]) if results else 0
    tight, holes = np.ones(count, bool), np.zeros(count, bool)
    columns = np.concatenate([r.reshape(count, -1) for r in results], axis=1)
    for row, balls in enumerate(columns.tolist()):
        size: arb | None = None
        for ball in balls:
            if ball.is_nan():
                holes[row] = True
                tight[row] = False
            elif ball.is_exact() or ball.rel_accuracy_bits() >= goal:
                continue
            else:
                size = _largest(balls) if size is None else size
                tight[row] &= narrow(ball, size, goal)
    return tight, holes


def narrow(ball: arb, size: arb, goal: int) -> bool:
    """A ball around zero counts as zero when it is far below its neighbours, or below all floats."""
    radius = ball.rad()
    if radius < arb(2) ** _NOTHING:
        return True
    return bool(ball.contains(0) and radius < size * arb(2) ** (-goal - 16))


def _largest(balls: Sequence[arb]) -> arb:
    size = arb(0)
    for ball in balls:
        if ball.is_finite():
            size = size.max(abs(ball).mid())
    return size
