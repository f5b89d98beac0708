"""Several arguments, or too many floats for all: a grid of ordinals, within a budget."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace

from gradcheck_cli.check.sweep.classes import DIGITS, FINE, INFINITE, NAMES, NAN, ZERO
from gradcheck_cli.check.sweep.stretches import met
from gradcheck_cli.check.sweep.walks import by_walks
from gradcheck_cli.contract.sweep_map import Stretch, Swept
from gradcheck_cli.contract.worker import Task
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.measure.sources import Sources
from gradcheck_cli.subject.protocol import Shaped, Subject

Array = np.ndarray[Any, Any]

_ROWS = 512  # points of one part


def parts(
    subject: Subject, rungs: Sources, fmt: Format, task: Task, swept: Swept
) -> Iterator[Swept]:
    """The grid, a few hundred points at a time."""
    share = task.sweep
    assert share is not None
    ordinals = _grid(subject, fmt, share.grid)
    count = -(-len(ordinals) // _ROWS)
    for number in range(count):
        if number % share.of != share.number or number in share.done:
            continue
        rows = ordinals[number * _ROWS : (number + 1) * _ROWS]
        points = [fmt.from_ordinals(column) for column in rows.T]
        within = np.all([met(fmt, task.reach, p) for p in points], axis=0)
        codes, bits = by_walks(subject, rungs, fmt, points, task.seed)
        yield replace(
            swept, part=number, parts=count, floats=len(rows),
            stretches=[s for k, c in enumerate(codes) for s in _boxes(k, c, bits[k], rows, within, fmt)],
            levels=[_level(c, b).tolist() for c, b in zip(codes, bits, strict=True)],
        )  # fmt: skip


def _grid(subject: Shaped, fmt: Format, budget: int) -> Array:
    """[point, argument]: ordinals evenly spread over all finite floats, zero and the ends among them."""
    arguments = len(subject.leaves)
    each = max(3, int(budget ** (1 / arguments)))
    each -= 1 - each % 2
    top = int(fmt.ordinals(fmt.max))
    line = np.round(np.linspace(-1.0, 1.0, each) * top).astype(np.int64)
    lines = []
    for leaf in subject.leaves:
        values = fmt.from_ordinals(line)
        inside = leaf.within(values, fmt)
        lines.append(np.unique(fmt.ordinals(inside)))
    return np.stack([axis.reshape(-1) for axis in np.meshgrid(*lines, indexing="ij")], axis=1)


def _boxes(
    result: int, codes: Array, bits: Array, rows: Array, within: Array, fmt: Format
) -> Iterator[Stretch]:
    """What is amiss with a result, each kind with the point that shows it best: the worst, or else the plainest."""
    plain = _plainness(rows, fmt)
    for kind in np.unique(codes).tolist():
        if kind == FINE:
            continue
        places = np.flatnonzero(codes == kind)
        badness = bits if kind in DIGITS else plain
        worst = places[int(badness[places].argmin())]
        yield Stretch(
            result=result, kind=NAMES[kind], first=rows[places].min(axis=0).tolist(),
            last=rows[places].max(axis=0).tolist(), count=len(places), at=rows[worst].tolist(), within=bool(within[places].any()),
            bits=round(float(bits[worst]), 2) if kind in DIGITS else None,
        )  # fmt: skip


def _plainness(rows: Array, fmt: Format) -> Array:
    """How far the numbers of a point are from 1, in powers of two; those outside of what models meet are far."""
    sizes = np.abs(fmt.from_ordinals(rows.reshape(-1))).reshape(rows.shape)
    return np.asarray(np.abs(np.log2(np.maximum(sizes, fmt.tiny))).sum(axis=1))


def _level(codes: Array, bits: Array) -> Array:
    broken = np.isin(codes, (ZERO, INFINITE, NAN))
    return np.where(codes > NAN, -1.0, np.where(broken, 0.0, bits))
