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

# All up, all down, and each its own way.
_WAYS: tuple[int | None, ...] = (1, -1, None, None)
_STEPS = 2  # so many half ulps, so that float64 holds the ends of its own constants


def movement(program: Program, args: Sequence[Array], goal: int, outputs: slice) -> list[Array]:
    """The most by which each output moves."""
    middle = enclose(program, args, goal=goal).outs[outputs]
    most = [np.zeros(out.shape) for out in middle]
    for seed, way in enumerate(_WAYS):
        moving = _moved(program, way, np.random.default_rng(seed))
        outs = enclose(moving, args, goal=goal).outs[outputs]
        moved = [np.abs(as_floats(out - old)) for out, old in zip(outs, middle, strict=True)]
        most = [np.fmax(*both) for both in zip(most, moved, strict=True)]
    return [out / _STEPS for out in most]


def _moved(program: Program, way: int | None, random: np.random.Generator) -> Program:
    """The program with each rounded constant a whole ulp away, up, down, or either at random; so in its loops."""
    constants = dict(program.constants)
    for slot, value in constants.items():
        if getattr(getattr(value, "dtype", None), "kind", "") == "f":
            array = np.asarray(value)
            signs = random.choice([-1.0, 1.0], array.shape) if way is None else float(way)
            constants[slot] = array.astype(np.float64) + signs * _STEPS * half_ulps(array)
    steps = tuple(
        replace(step, subs=tuple(_moved(sub, way, random) for sub in step.subs))
        if step.subs
        else step
        for step in program.steps
    )
    return replace(program, steps=steps, constants=constants)
