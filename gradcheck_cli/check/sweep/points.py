"""Single points: first in float64 pairs with a few moves around each, then as `check` judges them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.check.sweep.blocks import middle
from gradcheck_cli.check.sweep.chunk import Chunk
from gradcheck_cli.check.sweep.classes import (
    DIGITS,
    FINE,
    INFINITE,
    NAN,
    OPEN,
    OUTSIDE,
    UNDECIDED,
    Known,
    Limits,
    classes,
)
from gradcheck_cli.check.sweep.jets import SCALES, Jet, spread_floor
from gradcheck_cli.contract.limits import MARGIN
from gradcheck_cli.inputs.cotangents import BASE, cotangent
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.correct_bits import correct_bits
from gradcheck_cli.measure.engine import measure_rows
from gradcheck_cli.measure.measurements import Measurements, Probe, Rows
from gradcheck_cli.measure.sources import Sources
from gradcheck_cli.measure.states import KINK, POLE
from gradcheck_cli.measure.states import OUTSIDE as NOWHERE
from gradcheck_cli.measure.states import UNDECIDED as UNSETTLED
from gradcheck_cli.reals.float64.certify import certify
from gradcheck_cli.reals.ranges.ranges import Span, Undefined, spans
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Floats

Array = np.ndarray[Any, Any]

_MOVES = np.array([0, -4, -3, -2, -1, 1, 2, 3, 4])
_ROWS = 1 << 16
_BATCH = 1024


def by_pairs(jet: Jet, fmt: Format, xs: Array, got: Sequence[Array]) -> tuple[list[Array], list[Array]]:  # fmt: skip
    """Codes and correct bits for each result; undecided where float64 does not know."""
    parts = [
        _by_pairs(jet, fmt, xs[i : i + _ROWS], [g[i : i + _ROWS] for g in got])
        for i in range(0, len(xs), _ROWS)
    ]
    return _joined(parts)


def _joined(parts: Sequence[tuple[list[Array], list[Array]]]) -> tuple[list[Array], list[Array]]:
    codes, bits = (zip(*part, strict=True) for part in zip(*parts, strict=True))
    return [np.concatenate(c) for c in codes], [np.concatenate(b) for b in bits]


def _by_pairs(jet: Jet, fmt: Format, xs: Array, got: Sequence[Array]) -> tuple[list[Array], list[Array]]:  # fmt: skip
    count = len(xs)
    ulp = np.abs(fmt.moved(xs, 1) - xs)
    ulp = np.where(np.abs(xs) < fmt.tiny, fmt.tiny / 4, ulp)  # subnormal ones may act as 0
    around = xs[:, None] + _MOVES * ulp[:, None]
    scaled = xs[:, None] * np.array(SCALES)
    rows = np.concatenate([around, scaled], axis=1)
    bulk = certify(jet.plain, [rows.reshape(-1)])
    sure = bulk.sure.reshape(rows.shape)[:, : len(_MOVES)].all(axis=1)
    codes, bits, largest = [], [], np.zeros(count)
    for k in range(jet.results):
        mids, rads = (a[k].reshape(rows.shape) for a in (bulk.mids, bulk.rads))
        near, moves = mids[:, : len(_MOVES)], rads[:, : len(_MOVES)]
        scale = np.abs(np.where(np.isfinite(mids), mids, 0.0)).max(axis=1)
        if k == jet.results - 1:
            scale = np.maximum(scale, spread_floor(largest, xs))
        largest = np.maximum(largest, scale)
        with np.errstate(all="ignore"):
            reach = (1 + MARGIN.value) * np.abs(near - near[:, :1]).max(axis=1)
            rad = np.where(sure & np.isfinite(near).all(axis=1), moves.max(axis=1), np.inf)
        known = Known(near[:, 0], rad, np.where(np.isfinite(reach), reach, 0.0), scale)
        with np.errstate(all="ignore"):
            result = got[k].astype(np.float64)
            code = classes(np, result, known, Limits.of(fmt, value=k < jet.results - 1))
        codes.append(code)
        bits.append(_bits(result, known.mid, code, fmt))
    return codes, bits


def by_walks(
    subject: Subject, rungs: Sources, fmt: Format, points: Sequence[Array], seed: int
) -> tuple[list[Array], list[Array]]:
    """The same with everything that `check` knows: kinks, poles, holes, domains."""
    parts = []
    for start in range(0, len(points[0]), _BATCH):
        rows = [p[start : start + _BATCH] for p in points]
        count = len(rows[0])
        base = cotangent(BASE, subject.outputs)
        cotangents = [np.repeat(c[None], count, axis=0) for c in base]
        probes = [Probe(i, BASE) for i in range(count)]
        batch = Rows(subject, fmt, seed, probes, rows, cotangents, [""] * count)
        parts.append(_of_rows(measure_rows(batch, rungs), fmt))
    return _joined(parts)


def _of_rows(m: Measurements, fmt: Format) -> tuple[list[Array], list[Array]]:
    floats: Floats = m.floats[m.mode]
    codes, bits = [], []
    for what in (VALUES, GRADIENTS):
        arrays = floats.rule_value if what == VALUES else floats.custom or floats.auto or []
        got, mid, states = columns(arrays, m.count), m.reference.middle(what), m.reference.states(what)  # fmt: skip
        limits = Limits.of(fmt, value=what == VALUES)
        nothing = np.zeros_like(mid)  # the truth is known to more bits than the format has
        with np.errstate(all="ignore"):
            rough = classes(np, got, Known(mid, nothing, nothing, np.abs(mid)), limits)
        rows = np.flatnonzero(((rough != FINE) & np.isfinite(mid)).any(axis=1))
        reach, scale = np.zeros_like(mid), np.abs(mid)
        if len(rows):
            low, high = m.reference.hull(rows, what, 1)
            with np.errstate(invalid="ignore"):
                reach[rows] = np.nan_to_num(np.maximum(high - mid[rows], mid[rows] - low))
            scale[rows] = m.reference.scale(rows, what)[:, None]
        with np.errstate(all="ignore"):
            code = classes(np, got, Known(mid, nothing, reach, scale), limits)
        code = _by_state(code, got, mid, states, fmt, what)
        for column in range(mid.shape[1]):
            codes.append(code[:, column])
            bits.append(_bits(got[:, column], mid[:, column], code[:, column], fmt))
    return codes, bits


def _bits(results: Array, mid: Array, codes: Array, fmt: Format) -> Array:
    """Correct bits of each result, where some are lost."""
    lost = np.isin(codes, DIGITS)
    return np.where(lost, correct_bits(results, mid, fmt) + 0.0, fmt.digits)  # no −0


def _by_state(code: Array, got: Array, mid: Array, states: Array, fmt: Format, what: str) -> Array:
    """Where the truth is no plain number. A value whose limit depends on the direction is none."""
    broken = np.where(np.isnan(got), NAN, INFINITE)
    allowed = np.isfinite(got) | ~(np.abs(mid) <= fmt.max) | (what == VALUES)
    kink = np.where(allowed, FINE, broken)
    code = np.where(states == KINK, kink, code)
    code = np.where(states == POLE, FINE, code)
    code = np.where(states == NOWHERE, OUTSIDE, code)
    code = np.where((states == UNSETTLED) | (code == UNDECIDED), OPEN, code)
    return np.asarray(code, np.uint8)


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
