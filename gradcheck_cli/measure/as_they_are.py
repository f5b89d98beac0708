"""Where a program holds its arguments as they are given: moved, cast, or with a number added."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from gradcheck_cli.reals.facts import FACTS, Facts, Law
from gradcheck_cli.reals.program import Program, Slot, Step, alive

_SUMS = frozenset({"add", "add_any", "sub", "neg"})
_OF_SIGNS = frozenset({"abs", "sign"})
_COMPARE = frozenset({"max", "min", "gt", "ge", "lt", "le", "clamp"})
_ASK = _OF_SIGNS | _COMPARE


def steps_with_arguments(program: Program, values: int) -> Iterator[tuple[Step, dict[Slot, int]]]:
    """Each step that the first so many outputs hang on, with the slots before it that are an argument as it is, by its place."""
    of = {slot: place for place, slot in enumerate(program.inputs)}
    for step in alive(program.steps, program.outputs[:values]):
        yield step, of
        numbers = [slot for slot in step.ins if slot not in program.constants]
        if _is_kept(step, numbers) and numbers[0] in of:
            of |= dict.fromkeys(step.outs, of[numbers[0]])


def _is_kept(step: Step, numbers: Sequence[Slot]) -> bool:
    """Is it one argument that this step only moves, casts, or adds a number to?"""
    facts = FACTS.get(step.name, Facts(Law.SPECIAL))
    moved = facts.moves or facts.law in (Law.IDENTITY, Law.CAST) or step.name in _SUMS
    return len(numbers) == 1 and moved


def asks_beyond(program: Program, values: int, place: int, ends: tuple[float, float]) -> bool:
    """Does what gives the value ask for the sign of what an argument is in, or on which side of a number it is that does not lie between these ends?

    A loop or a branch that asks for anything does; what a library function asks within itself does not count.
    """
    low, high = ends
    of = {program.inputs[place]}
    for step in alive(program.steps, program.outputs[:values]):
        if not of.intersection(step.ins):
            continue
        of.update(step.outs)
        if step.call is not None:
            continue
        asks = step.name in _OF_SIGNS and low >= 0
        asks |= any(sub.primitives() & _ASK for sub in step.subs)
        if asks or (step.name in _COMPARE and _is_beyond(program, step, of, low, high)):
            return True
    return False


def _is_beyond(program: Program, step: Step, of: Collection[Slot], low: float, high: float) -> bool:
    """Is it compared with itself, or with a number that is not between the ends?"""
    beside = [slot for slot in step.ins if slot not in of]
    constants = [program.constants[slot] for slot in beside if slot in program.constants]
    numbers = [np.asarray(each, np.float64).ravel() for each in constants]
    return not beside or any(not ((low < n) & (n < high)).all() for n in numbers)
