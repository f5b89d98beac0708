"""What is told of a chunk: stretches of one fate, and the worst digits along the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.check.sweep.chunk import Chunk
from gradcheck_cli.check.sweep.classes import DIGITS, FINE, INFINITE, NAMES, NAN, ZERO
from gradcheck_cli.contract.sweep_map import Stretch
from gradcheck_cli.inputs.floats import Format

Array = np.ndarray[Any, Any]


def gap_of(fmt: Format) -> int:
    """Floats of one fate that lie nearer than an eighth of a binade are one stretch."""
    return 1 << (fmt.digits - 4)


def met(fmt: Format, reach: float, values: Array) -> Array:
    """Numbers of a size that models meet."""
    sizes = np.abs(values)
    return np.asarray((sizes == 0) | ((sizes >= 2 * np.sqrt(fmt.tiny)) & (sizes <= reach)))


def stretches(chunk: Chunk, result: int, reach: float) -> list[Stretch]:
    """In ascending order of the floats."""
    codes = chunk.codes[result]
    least, most = int(codes.min()), int(codes.max())
    if least == most == FINE:
        return []
    kinds = [least] if least == most else np.flatnonzero(np.bincount(codes, minlength=256)).tolist()
    found: list[Stretch] = []
    for kind in kinds:
        if kind != FINE:
            found += _of_kind(chunk, result, kind, reach)
    return found


def _of_kind(chunk: Chunk, result: int, kind: int, reach: float) -> list[Stretch]:
    places = np.flatnonzero(chunk.codes[result] == kind)
    ends = np.flatnonzero(np.diff(places) > gap_of(chunk.fmt))
    starts = np.concatenate([[0], ends + 1])
    stops = np.concatenate([ends + 1, [len(places)]])
    made = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        part = places[start:stop]
        edges = chunk.fmt.ordinals(chunk.xs[[part[0], part[-1]]].astype(np.float64)).tolist()
        within = met(chunk.fmt, reach, chunk.xs[part].astype(np.float64)).any()
        worst, at = None, None
        if kind in DIGITS:
            left = chunk.digits(result)
            place = part[int(left[part].argmin())]
            worst = round(float(left[place]), 2)
            at = [int(chunk.fmt.ordinals([float(chunk.xs[place])])[0])]
        made.append(
            Stretch(
                result=result, kind=NAMES[kind], first=[min(edges)], last=[max(edges)],
                count=stop - start, within=bool(within), bits=worst, at=at,
            )
        )  # fmt: skip
    return made[::-1] if edges[0] > edges[-1] else made


def levels(chunk: Chunk, result: int, parts: int) -> list[float]:
    """The least correct bits in each part of the chunk, ascending; -1 where nothing is judged."""
    codes = chunk.codes[result]
    least, most = int(codes.min()), int(codes.max())
    if least == most and least not in DIGITS:
        return [{FINE: float(chunk.fmt.digits)}.get(least, 0.0 if least <= NAN else -1.0)] * parts
    judged = codes <= NAN
    broken = (codes == ZERO) | (codes == INFINITE) | (codes == NAN)
    left = np.where(broken, 0.0, chunk.digits(result))
    cut = [
        min(left[part][judged[part]].tolist(), default=-1.0)
        for part in np.array_split(np.arange(len(codes)), parts)
    ]
    return cut[::-1] if np.signbit(chunk.xs[0]) else cut
