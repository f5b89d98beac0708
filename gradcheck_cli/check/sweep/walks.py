"""Single points as `check` judges them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.check.sweep.classes import (
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
from gradcheck_cli.check.sweep.codes import bits_of, joined
from gradcheck_cli.inputs.cotangents import BASE, cotangent
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.engine import measure_rows
from gradcheck_cli.measure.measurements import Measurements, Probe, Rows
from gradcheck_cli.measure.sources import Sources
from gradcheck_cli.measure.states import KINK, POLE
from gradcheck_cli.measure.states import OUTSIDE as NOWHERE
from gradcheck_cli.measure.states import UNDECIDED as UNSETTLED
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Floats

Array = np.ndarray[Any, Any]

_BATCH = 1024


def by_walks(
    subject: Subject, rungs: Sources, fmt: Format, points: Sequence[Array], seed: int
) -> tuple[list[Array], list[Array]]:
    """Codes and correct bits by all that `check` knows: kinks, poles, holes, domains."""
    parts = []
    for start in range(0, len(points[0]), _BATCH):
        rows = [p[start : start + _BATCH] for p in points]
        count = len(rows[0])
        base = cotangent(BASE, subject.outputs)
        cotangents = [np.repeat(c[None], count, axis=0) for c in base]
        probes = [Probe(i, BASE) for i in range(count)]
        batch = Rows(subject, fmt, seed, probes, rows, cotangents, [""] * count)
        parts.append(_of_rows(measure_rows(batch, rungs), fmt))
    return joined(parts)


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
            bits.append(bits_of(got[:, column], mid[:, column], code[:, column], fmt))
    return codes, bits


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
