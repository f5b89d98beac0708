"""Axes along which the function reduces an argument by itself, and takes it no otherwise than with that: a vector over its norm."""

from __future__ import annotations

from gradcheck_cli.reals.facts import FACTS, Facts, Law
from gradcheck_cli.reals.program import Program, Slot, Step, alive


def own_axes(program: Program, values: int, place: int) -> frozenset[int]:
    """Such axes of an argument in what gives the first so many outputs; none if it also stands beside others as it is, for then it may be laid along them."""
    plain: set[Slot] = {program.inputs[place]}  # the argument, element by element
    own: set[Slot] = set()  # what is made of its reductions, or of it and these
    shape, found = program.in_avals[place].shape, set()
    for step in alive(program.steps, program.outputs[:values]):
        numbers = {slot for slot in step.ins if slot not in program.constants}
        if not numbers & plain:
            own.update(step.outs if numbers and numbers <= own else ())
        elif not numbers <= plain | own:
            return frozenset()
        elif _facts(step).law is Law.REDUCTION:
            found.update(step.params.get("axes", ()))
            own.update(step.outs)
        elif not _facts(step).pointwise or any(a.shape != shape for a in step.out_avals):
            return frozenset()
        else:
            (plain if numbers <= plain else own).update(step.outs)
    return frozenset(found)


def _facts(step: Step) -> Facts:
    return FACTS.get(step.name, Facts(Law.CONTROL))
