"""A program in which constants that stand for infinity are so large that nothing comes near them.

The -1e9 of masked scores is below all scores that anybody means. It is no number of the formula, and only chosen,
compared or put somewhere.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import CHOSEN_INFINITY
from gradcheck_cli.reals.facts import Law, named
from gradcheck_cli.reals.program import Program, Slot, Step

_FARTHER = 2.0**200
_MOVES = named(lambda facts: facts.moves or facts.law in (Law.IDENTITY, Law.CAST))
_CHOOSES = named(lambda facts: facts.law in (Law.CHOICE, Law.COMPARISON)) | {
    "max", "min", "clamp", "scatter", "dynamic_update_slice",
}  # fmt: skip


def with_farther_infinities(program: Program) -> Program | None:
    """The program with such constants 2²⁰⁰ times as large; None, if it has none."""
    readers: dict[Slot, list[Step]] = defaultdict(list)
    for step in program.steps:
        for slot in step.ins:
            readers[slot].append(step)
    farther = {
        slot: np.asarray(value).astype(np.float64) * _FARTHER
        for slot, value in program.constants.items()
        if _is_large(value) and _is_chosen(slot, readers)
    }
    return replace(program, constants=program.constants | farther) if farther else None


def _is_large(value: Any) -> bool:
    if getattr(getattr(value, "dtype", None), "kind", "") != "f":
        return False
    size = np.abs(np.asarray(value))
    return bool(size.size and (size >= CHOSEN_INFINITY.value).all() and np.isfinite(size).all())


def _is_chosen(slot: Slot, readers: dict[Slot, list[Step]]) -> bool:
    """Does nothing calculate with it?"""
    return bool(readers[slot]) and all(
        step.name in _CHOOSES
        or (step.name in _MOVES and all(_is_chosen(out, readers) for out in step.outs))
        for step in readers[slot]
    )
