"""What a program itself loses of its digits, at a float's precision: no call can be held to more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.measure.components import columns
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.walk import NoRealMeaning, walk

Array = np.ndarray[Any, Any]

_FLOAT64_BITS = 53


def holds_in_float64(
    program: Program, inputs: Sequence[Array], run: Sequence[Array], *, last: bool
) -> Array:
    """Rows at which a run in float64 lies within what the program may give with as many digits: its first results, or its last ones.

    What has no bounds at all with so many digits holds nothing.
    """
    count = len(inputs[0])
    try:
        with working(_FLOAT64_BITS):
            outs = walk(program, Balls(count), [exact(a) for a in inputs])
            part = outs[-len(run) :] if last else outs[: len(run)]
            balls = columns([np.broadcast_to(o, (count, *o.shape[1:])) for o in part], count)
            floats = exact(columns(run, count))
            held = [
                a.is_finite() and a.overlaps(b)
                for a, b in zip(balls.flat, floats.flat, strict=True)
            ]
    except NoRealMeaning:
        return np.zeros(count, bool)
    return np.asarray(np.reshape(held, (count, -1)).all(axis=1))
