"""A program in which constants that stand for infinity are so large that nothing comes near them.

The -1e9 of masked scores is below all scores that anybody means. It is no number of the formula, and only stands
beside what is computed, where one of both is chosen. A bound or a threshold is computed with: it stands for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import CHOSEN_INFINITY
from gradcheck_cli.reals.facts import Law, named
from gradcheck_cli.reals.program import Program, Slot, Step

_FARTHER = 2.0**200
_MOVES = named(lambda facts: facts.moves or facts.law in (Law.IDENTITY, Law.CAST))
_CHOOSES = named(lambda facts: facts.law is Law.CHOICE)


@dataclass(frozen=True, slots=True)
class Infinities:
    """What stands for infinity in a program: it with all of that farther out, and what is computed beside each."""

    farther: Program
    beside: Program  # the arguments → what one chooses from, beside such a constant
    sizes: tuple[float, ...]  # of the constants, one for each of these


def infinities(program: Program) -> Infinities | None:
    """Such constants of a program; None, if it has none."""
    readers: dict[Slot, list[Step]] = defaultdict(list)
    makers: dict[Slot, Step] = {}
    for step in program.steps:
        makers |= dict.fromkeys(step.outs, step)
        for slot in step.ins:
            readers[slot].append(step)
    computed = _computed(program)
    farther: dict[Slot, Any] = {}
    rivals: dict[Slot, float] = {}
    for slot, value in program.constants.items():
        if not _is_large(value) or slot in program.outputs:
            continue
        found = [each for rival in _beside(slot, readers) for each in _cases(rival, makers)]
        beside = [each for each in found if each in computed or each < 0]
        if beside and all(rival in computed for rival in beside):
            farther[slot] = np.asarray(value).astype(np.float64) * _FARTHER
            size = float(np.abs(np.asarray(value, np.float64)).min())
            rivals |= {rival: min(size, rivals.get(rival, size)) for rival in beside}
    if not farther:
        return None
    avals = {o: a for s in program.steps for o, a in zip(s.outs, s.out_avals, strict=True)}
    avals |= dict(zip(program.inputs, program.in_avals, strict=True))
    beside_them = replace(
        program, outputs=tuple(rivals), out_avals=tuple(avals[slot] for slot in rivals)
    )
    moved = replace(program, constants=program.constants | farther)
    return Infinities(moved, beside_them, tuple(rivals.values()))


def _cases(slot: Slot, makers: dict[Slot, Step]) -> Iterator[Slot]:
    """What a choice is made of, where it is one itself: of masks within masks each leaves something."""
    maker = makers.get(slot)
    if maker is None or maker.name not in _CHOOSES:
        yield slot
        return
    for case in maker.ins[1:]:
        yield from _cases(case, makers)


def _is_large(value: Any) -> bool:
    if getattr(getattr(value, "dtype", None), "kind", "") != "f":
        return False
    size = np.abs(np.asarray(value, np.float64))
    return bool(size.size and (size >= CHOSEN_INFINITY.value).all() and size.max() < _FARTHER)


def _computed(program: Program) -> set[Slot]:
    """The slots that hang on an argument."""
    found = set(program.inputs)
    for step in program.steps:
        if found.intersection(step.ins):
            found.update(step.outs)
    return found


def _beside(slot: Slot, readers: dict[Slot, list[Step]]) -> Iterator[Slot]:
    """The slots that are chosen where a constant is not; a slot that is none, where something calculates with it."""
    for step in readers[slot]:
        if step.name in _CHOOSES and slot in step.ins[1:]:
            yield from (other for other in step.ins[1:] if other != slot)
        elif step.name in _MOVES:
            for out in step.outs:
                yield from _beside(out, readers)
        else:
            yield -1
