"""Blocks of open floats over which the range of the truth is known."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.check.sweep.blocks import middle
from gradcheck_cli.check.sweep.chunk import Chunk
from gradcheck_cli.check.sweep.classes import OUTSIDE, UNDECIDED, Known, Limits, classes
from gradcheck_cli.check.sweep.jets import Jet
from gradcheck_cli.reals.ranges.ranges import Span, Undefined, spans


def by_ranges(jet: Jet, chunk: Chunk) -> None:
    """Blocks of open floats over which the truth's range is known, from large to small."""
    for size in (512, 64, 8):
        open_ = np.any([c == UNDECIDED for c in chunk.codes], axis=0)
        for start in range(0, len(chunk.xs), size):
            cut = slice(start, min(start + size, len(chunk.xs)))
            if open_[cut].all():
                _by_range(jet, chunk, cut)


def _by_range(jet: Jet, chunk: Chunk, cut: slice) -> None:
    ends = chunk.xs[[cut.start, cut.stop - 1]].astype(np.float64)
    outs = spans(jet.plain, float(ends.min()), float(ends.max()))
    if outs is None:
        return
    outside = all(isinstance(out, Undefined) for out in outs[:-1])
    for k, out in enumerate(outs):
        codes = chunk.codes[k][cut]
        if outside:
            codes[:] = OUTSIDE
        elif isinstance(out, Span):
            mid, rad = middle(out)
            truth = Known(np.full(len(codes), mid), rad, 0.0, abs(mid))
            with np.errstate(all="ignore"):
                got = chunk.got[k][cut].astype(np.float64)
                found = classes(np, got, truth, Limits.of(chunk.fmt, value=k < len(outs) - 1))
            codes[codes == UNDECIDED] = found[codes == UNDECIDED]
