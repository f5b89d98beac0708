"""How far a gradient moves if each rounded constant of its program is another number within its half ulp (SEMANTICS B2).

Balls around the constants answer that for short programs. Through sixty steps of an iteration they grow without
end, and would excuse any formula; so what they excuse is tried at numbers within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.measure.components import as_floats
from gradcheck_cli.reals.balls.balls import half_ulps
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import Program

Array = np.ndarray[Any, Any]

_DRAWS = 3


def movement(
    program: Program, args: Sequence[Array], goal: int, outputs: slice
) -> list[Array] | None:
    """The most by which each output moves; None where steps have programs of their own, whose constants stay."""
    if any(step.subs for step in program.steps):
        return None
    middle = [as_floats(out) for out in enclose(program, args, goal=goal).outs[outputs]]
    most = [np.zeros_like(out) for out in middle]
    for seed in range(_DRAWS):
        outs = enclose(_moved(program, seed), args, goal=goal).outs[outputs]
        most = [
            np.fmax(m, np.abs(as_floats(o) - c)) for m, o, c in zip(most, outs, middle, strict=True)
        ]
    return most


def _moved(program: Program, seed: int) -> Program:
    """The program with each rounded constant at one end of its half ulp."""
    signs = np.random.default_rng(seed)
    constants = dict(program.constants)
    for slot, value in constants.items():
        array = (
            np.asarray(value) if getattr(getattr(value, "dtype", None), "kind", "") == "f" else None
        )
        if array is not None:
            ends = half_ulps(array) * signs.choice([-1.0, 1.0], array.shape)
            constants[slot] = array.astype(np.float64) + ends
    return replace(program, constants=constants)
