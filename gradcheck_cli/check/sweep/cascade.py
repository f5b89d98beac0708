"""The codes of many floats along a line: blocks, single pairs, ranges of what is left, single walks."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from gradcheck_cli.check.sweep.blocks import judge_blocks
from gradcheck_cli.check.sweep.chunk import CHUNK, Chunk
from gradcheck_cli.check.sweep.classes import FINE, OUTSIDE, SUBNORMAL, UNDECIDED
from gradcheck_cli.check.sweep.jets import Jet
from gradcheck_cli.check.sweep.line import Line
from gradcheck_cli.check.sweep.pairs import by_pairs
from gradcheck_cli.check.sweep.ranges import by_ranges
from gradcheck_cli.check.sweep.walks import by_walks
from gradcheck_cli.reals.walk import NoRealMeaning

Array = np.ndarray[Any, Any]

_FEWEST = 1 << 8  # open floats of which single pairs are asked; ranges of blocks come after


def judged(line: Line, xs: Array) -> Chunk:
    """From cheap to dear: blocks, single pairs, ranges of what is left, single walks."""
    chunk = Chunk(line.fmt, xs, line.subject.run_scalars(xs, line.weights))
    beyond = _beyond(line, xs)
    _mark(chunk, beyond)
    jet = line.jet
    if jet is not None:
        with contextlib.suppress(NoRealMeaning):  # float64 pairs may lack one of its primitives
            _by_jet(line, jet, chunk)
    left = chunk.open()
    if len(left):
        wide = chunk.xs[left].astype(np.float64)
        found = by_walks(line.subject, line.rungs, line.fmt, [wide], line.seed)
        _write(chunk, left, *found)
    _forgive_subnormal(chunk)
    _mark(chunk, beyond)  # blocks do not ask for the declared domain
    nowhere = np.all([codes == OUTSIDE for codes in chunk.codes[:-1]], axis=0)
    chunk.codes[-1][nowhere] = OUTSIDE  # where there is no value, there is no gradient
    return chunk


def _by_jet(line: Line, jet: Jet, chunk: Chunk) -> None:
    large = len(chunk.xs) == CHUNK
    if large:
        judge_blocks(jet, chunk)
        _forgive_subnormal(chunk)
    left = chunk.open()
    if len(left):
        got = [g[left] for g in chunk.got]
        _write(chunk, left, *by_pairs(jet, line.fmt, chunk.xs[left].astype(np.float64), got))
    if not large and len(chunk.open()) > _FEWEST:
        by_ranges(jet, chunk)


def _forgive_subnormal(chunk: Chunk) -> None:
    """Numbers below the smallest normal may act as 0: what is not fine there is not judged."""
    sizes = np.abs(chunk.xs.astype(np.float32))
    if sizes.min() < chunk.fmt.tiny:
        small = (sizes < chunk.fmt.tiny) & (sizes > 0)
        for codes in chunk.codes:
            codes[small & (codes != FINE) & (codes != OUTSIDE)] = SUBNORMAL


def _beyond(line: Line, xs: Array) -> Array:
    """Where the argument is declared not to be."""
    domain = line.subject.leaves[0].domain
    if domain is None:
        return np.zeros(0, int)
    wide = xs.astype(np.float64)
    return np.flatnonzero(domain.into(wide, line.fmt) != wide)


def _mark(chunk: Chunk, beyond: Array) -> None:
    for codes in chunk.codes:
        codes[beyond] = OUTSIDE


def _write(chunk: Chunk, places: Array, codes: list[Array], bits: list[Array]) -> None:
    """What was undecided only."""
    for k, (new, digits) in enumerate(zip(codes, bits, strict=True)):
        open_ = chunk.codes[k][places] == UNDECIDED
        chunk.codes[k][places[open_]] = new[open_]
        chunk.digits(k)[places[open_]] = digits[open_]
