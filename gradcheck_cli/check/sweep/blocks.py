"""A chunk of floats at once: blocks over which the truth is a polynomial, halved where it is not.

What a block cannot decide is left to single points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.check.sweep.block_codes import judge
from gradcheck_cli.check.sweep.chunk import Chunk
from gradcheck_cli.check.sweep.classes import OUTSIDE, UNDECIDED
from gradcheck_cli.check.sweep.jets import Jet, Pieces, pieces, sharper
from gradcheck_cli.contract.limits import ROUNDING_ULP, SWEEP_OPEN_PART
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.reals.ranges.ranges import Span, Undefined, spans

Array = np.ndarray[Any, Any]

_SIZES = tuple(1 << n for n in (21, 18, 14, 12, 10, 8, 6))
_FEW = 64  # blocks of which ranges are tried too
_MOST_SHARPER = 1 << 14


def judge_blocks(jet: Jet, chunk: Chunk) -> None:
    """Decide what blocks can decide."""
    starts = np.zeros(1, np.int64)  # positions in the chunk
    for size, smaller in zip(_SIZES, (*_SIZES[1:], 1), strict=True):
        lows, highs = _ends(chunk, starts, size)
        found = pieces(jet, lows, highs)
        loose = np.flatnonzero(~_tight(found, chunk.fmt))[:_FEW]
        gone = _range(jet, chunk, found, starts, size, loose)
        good = _tight(found, chunk.fmt) | _broken(chunk, found, starts, size)
        poor = ~good & _worth_more(found, chunk.fmt)
        poor &= np.cumsum(poor) <= _MOST_SHARPER
        if poor.any():
            better = sharper(jet, found.take(poor))
            found.coefficients[:, :, poor] = better.coefficients
            found.rads[:, poor] = better.rads
            good[poor] = _tight(better, chunk.fmt)
        good &= ~gone
        judge(chunk, found.take(good), starts[good], size)
        good[good] = _settled(chunk, starts[good], size)
        left = starts[~good & ~gone]
        starts = (left[:, None] + np.arange(0, size, smaller)[None]).reshape(-1)
        if not len(starts):
            return


def _settled(chunk: Chunk, starts: Array, size: int) -> Array:
    """Blocks with so few open floats that single points may answer for them."""
    open_ = np.zeros(len(starts), int)
    for codes in chunk.codes:
        blocks = codes.reshape(-1, size)[starts // size]
        open_ = np.maximum(open_, (blocks == UNDECIDED).sum(axis=1))
    return np.asarray(open_ <= size // 64)


def _ends(chunk: Chunk, starts: Array, size: int) -> tuple[Array, Array]:
    ends = [chunk.xs[starts], chunk.xs[starts + size - 1]]
    first, last = (np.asarray(e, np.float64) for e in ends)
    return np.minimum(first, last), np.maximum(first, last)


def _slack(found: Pieces, fmt: Format) -> Array:
    return np.asarray(ROUNDING_ULP.value * fmt.eps * np.abs(found.coefficients[0]) + fmt.underflow)


def _tight(found: Pieces, fmt: Format) -> Array:
    """Blocks over which every result is known so well that hardly a float is left open."""
    return np.asarray((found.rads <= SWEEP_OPEN_PART.value * _slack(found, fmt)).all(axis=0))


def _worth_more(found: Pieces, fmt: Format) -> Array:
    """Blocks over which the polynomial holds, were its coefficients known better."""
    with np.errstate(all="ignore"):
        rest = found.bounds * found.halves**3 / 6
        size = np.abs(found.coefficients[0]) + found.rads
        slack = ROUNDING_ULP.value * fmt.eps * size + fmt.underflow
        return np.asarray((rest <= SWEEP_OPEN_PART.value * slack).all(axis=0))


def _broken(chunk: Chunk, found: Pieces, starts: Array, size: int) -> Array:
    """Blocks where no result is a number, or all are known: there it is enough that the truth is one."""
    enough = np.ones(len(starts), bool)
    tight = found.rads <= SWEEP_OPEN_PART.value * _slack(found, chunk.fmt)
    for k, got in enumerate(chunk.got):
        asked = np.flatnonzero(enough & ~tight[k])
        for i in asked.tolist():
            block = got[starts[i] : starts[i] + size]
            whole = found.rads[k, i] < np.inf and not np.isfinite(block[:: max(1, size // 16)]).any()  # fmt: skip
            enough[i] = whole and not np.isfinite(block.astype(np.float32)).any()
    return enough


def _range(jet: Jet, chunk: Chunk, found: Pieces, starts: Array, size: int, which: Array) -> Array:
    """Where a polynomial does not hold, the range over the whole block; what is undefined is outside."""
    lows, highs = _ends(chunk, starts, size)
    gone = np.zeros(len(starts), bool)
    for i in which.tolist():
        outs = spans(jet.plain, float(lows[i]), float(highs[i]))
        if outs is None:
            continue
        if all(isinstance(out, Undefined) for out in outs[:-1]):
            gone[i] = True
            for codes in chunk.codes:
                codes[starts[i] : starts[i] + size] = OUTSIDE
            continue
        for k, out in enumerate(outs):
            if isinstance(out, Span):
                _narrowed(found, k, i, out)
    return gone


def _narrowed(found: Pieces, result: int, block: int, out: Span) -> None:
    """The range instead of the polynomial, if it is narrower."""
    mid, rad = middle(out)
    if rad < found.rads[result, block]:
        found.rads[result, block] = rad
        found.coefficients[:, result, block] = (mid, 0.0, 0.0)


def middle(out: Span) -> tuple[float, float]:
    """A range as float64: its middle, and how far it reaches."""
    low, high = float(out.low.lower()), float(out.high.upper())
    mid = low / 2 + high / 2
    return mid, max(high - mid, mid - low) * (1 + 2.0**-50) + abs(mid) * 2.0**-52
