"""Every float of one argument, a share of the chunks for each worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace

from gradcheck_cli.check.sweep.cascade import judged
from gradcheck_cli.check.sweep.chunk import CHUNK
from gradcheck_cli.check.sweep.line import Line
from gradcheck_cli.check.sweep.stretches import levels, stretches
from gradcheck_cli.contract.sweep_map import Swept
from gradcheck_cli.contract.worker import Task
from gradcheck_cli.inputs.floats import Format

Array = np.ndarray[Any, Any]

_SMALL_CHUNK = 1 << 12
_CELLS = 64  # of the picture


def every_float(line: Line, task: Task, swept: Swept) -> Iterator[Swept]:
    """This worker's share of the chunks, each as soon as it is judged."""
    share = task.sweep
    assert share is not None
    all_ = chunks(line.fmt)
    for number, (first, count, negative) in enumerate(all_):
        if number % share.of != share.number or number in share.done:
            continue
        chunk = judged(line, floats(line.fmt, first, count, negative))
        cut = -(-_CELLS // len(all_))
        results = range(len(chunk.got))
        yield replace(
            swept, part=number, parts=len(all_), floats=count,
            stretches=[s for k in results for s in stretches(chunk, k, task.reach)],
            levels=[levels(chunk, k, cut) for k in results],
        )  # fmt: skip


def chunks(fmt: Format) -> list[tuple[int, int, bool]]:
    """(first size, how many, negative?), in ascending order of the floats."""
    total = int(fmt.ordinals(fmt.max)) + 1
    step = CHUNK if fmt.name == "float32" else _SMALL_CHUNK
    firsts = range(0, total, step)
    sizes = [(first, min(step, total - first)) for first in firsts]
    below = [(first, count, True) for first, count in reversed(sizes)]
    return below + [(first, count, False) for first, count in sizes]


def floats(fmt: Format, first: int, count: int, negative: bool) -> Array:
    """So many floats from a size on, on one side of zero."""
    raw = np.arange(first, first + count, dtype=fmt.bits)
    return (raw | np.iinfo(fmt.bits).min if negative else raw).view(fmt.dtype)
