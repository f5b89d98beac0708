"""The numbers on the way to the truth: each step of the primal's pullback, with the expression that made it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.project.framework_marks import PLUMBING
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import START_BITS, working
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.source_spot import spot
from gradcheck_cli.reals.walk import all_slots

Array = np.ndarray[Any, Any]

_MOST_STEPS = 400


@dataclass(frozen=True, slots=True)
class Part:
    """A number or array that the truth is made of; rows first."""

    text: str
    value: Array


def parts(program: Program, names: Sequence[str], args: Sequence[Array]) -> list[Part]:
    """Inputs by name, then every step that a line of the user's explains."""
    if len(program.steps) > _MOST_STEPS:
        return []
    count = len(args[0])
    with working(START_BITS):
        slots = all_slots(program, Balls(count), [np.asarray(exact(a)) for a in args])
    inputs = [Part(n, slots[s]) for n, s in zip(names, program.inputs, strict=False)]
    return [*inputs, *_explained(program, slots, count)]


def _explained(program: Program, slots: Sequence[Any], count: int) -> Iterator[Part]:
    """Floats that a step makes, where a line of the user's explains the step."""
    for step in program.steps:
        for slot, aval in zip(step.outs, step.out_avals, strict=True):
            if aval.kind != "f" or len(slots[slot]) != count:
                continue
            place = spot(step, PLUMBING)
            if place is not None:
                yield Part(f"`{place.text}` (line {place.line})", slots[slot])
