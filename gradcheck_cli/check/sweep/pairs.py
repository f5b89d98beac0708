"""Single points in float64 pairs, with a few moves around each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.check.sweep.classes import Known, Limits, classes
from gradcheck_cli.check.sweep.codes import bits_of, joined
from gradcheck_cli.check.sweep.jets import SCALES, Jet, spread_floor
from gradcheck_cli.contract.limits import MARGIN
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.reals.float64.certify import certify

Array = np.ndarray[Any, Any]

_MOVES = np.array([0, -4, -3, -2, -1, 1, 2, 3, 4])
_ROWS = 1 << 16


def by_pairs(jet: Jet, fmt: Format, xs: Array, got: Sequence[Array]) -> tuple[list[Array], list[Array]]:  # fmt: skip
    """Codes and correct bits for each result; undecided where float64 does not know."""
    parts = [
        _by_pairs(jet, fmt, xs[i : i + _ROWS], [g[i : i + _ROWS] for g in got])
        for i in range(0, len(xs), _ROWS)
    ]
    return joined(parts)


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
        bits.append(bits_of(result, known.mid, code, fmt))
    return codes, bits
