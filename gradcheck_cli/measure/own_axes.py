"""Axes of an argument along which the function reduces it by itself: the squares of one vector, the mean of one row."""

from __future__ import annotations

from gradcheck_cli.reals.facts import FACTS, Facts, Law
from gradcheck_cli.reals.program import Program, Slot


def own_axes(program: Program, place: int) -> frozenset[int]:
    """The axes along which something is reduced that is made of this argument alone, element by element."""
    own: set[Slot] = {program.inputs[place]}
    shape, found = program.in_avals[place].shape, set()
    for step in program.steps:
        numbers = [slot for slot in step.ins if slot not in program.constants]
        facts = FACTS.get(step.name, Facts(Law.CONTROL))
        if not numbers or not own.issuperset(numbers):
            continue
        if facts.law is Law.REDUCTION:
            found.update(step.params.get("axes", ()))
        elif facts.pointwise and all(aval.shape == shape for aval in step.out_avals):
            own.update(step.outs)
    return frozenset(found)
