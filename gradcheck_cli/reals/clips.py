"""Clips in a program, both of whose bounds are computed, or one of them: where these cross, a clip is none.

`minimum(maximum(x, 0.03 * fund), 0.07 * fund)` has its floor above its cap at a fund below zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradcheck_cli.reals.facts import Law, named
from gradcheck_cli.reals.program import Program, Slot, Step, alive

_MOVES = named(lambda facts: facts.moves or facts.law in (Law.IDENTITY, Law.CAST))
_OTHER = {"min": "max", "max": "min"}


@dataclass(frozen=True, slots=True)
class Clips:
    """The bounds of clips, each lower one with its upper one: slots of the program, of which some are constants."""

    pairs: tuple[tuple[Slot, Slot], ...]
    computed: Program  # the arguments → those that are no constants, each once


def clips(program: Program, values: int) -> Clips | None:
    """The clips in what gives the first so many outputs; None, if there is none."""
    steps = alive(program.steps, program.outputs[:values])
    origins = _Origins.of(program, steps)
    found = (_pair(step, origins) for step in steps)
    pairs = tuple(dict.fromkeys(pair for pair in found if pair and origins.hang(pair)))
    bounds = dict.fromkeys(slot for pair in pairs for slot in pair if slot not in program.constants)
    if not bounds:
        return None
    avals = {o: a for s in steps for o, a in zip(s.outs, s.out_avals, strict=True)}
    avals |= dict(zip(program.inputs, program.in_avals, strict=True))
    outputs = tuple(bounds)
    return Clips(
        pairs, replace(program, outputs=outputs, out_avals=tuple(avals[s] for s in outputs))
    )


@dataclass(frozen=True, slots=True)
class _Origins:
    """What makes each slot, and the arguments that it hangs on."""

    makers: dict[Slot, Step]
    arguments: dict[Slot, frozenset[Slot]]

    @classmethod
    def of(cls, program: Program, steps: Sequence[Step]) -> _Origins:
        makers: dict[Slot, Step] = {}
        arguments = {slot: frozenset([slot]) for slot in program.inputs}
        for step in steps:
            each = (arguments.get(slot, frozenset()) for slot in step.ins)
            arguments |= dict.fromkeys(step.outs, frozenset().union(*each))
            makers |= dict.fromkeys(step.outs, step)
        return _Origins(makers, arguments)

    def hang(self, slots: Sequence[Slot]) -> bool:
        """Does any of them hang on an argument?"""
        return any(self.arguments.get(slot) for slot in slots)

    def before(self, slot: Slot) -> Step | None:
        """The step that made it, behind those that only move it."""
        step = self.makers.get(slot)
        while step is not None and step.name in _MOVES and step.ins:
            step = self.makers.get(step.ins[0])
        return step

    def made_of(self, slot: Slot) -> tuple[object, ...]:
        """What makes it of which numbers, but for constants: `0.03 * fund` as `0.07 * fund`; what nothing makes is like no other."""
        step = self.makers.get(slot)
        if step is None:
            return ("", slot)
        return (step.name, *(each for each in step.ins if self.arguments.get(each)))

    def are_alike(self, slot: Slot, other: Slot) -> bool:
        """Is it a constant, or made of the same arguments?"""
        own = self.arguments.get(slot, frozenset())
        return not own or own == self.arguments.get(other, frozenset())


def _pair(step: Step, origins: _Origins) -> tuple[Slot, Slot] | None:
    """The lower and the upper bound, if the step is the end of a clip and it is clear which these are."""
    if step.name == "clamp":
        return step.ins[0], step.ins[2]
    for inner, outer in (step.ins, step.ins[::-1]) if step.name in _OTHER else ():
        first = origins.before(inner)
        if first is None or first.name != _OTHER[step.name]:
            continue
        made = [s for s in first.ins if origins.made_of(s) == origins.made_of(outer)]
        bounds = made or [s for s in first.ins if origins.are_alike(s, outer)]
        if len(bounds) == 1:
            return (bounds[0], outer) if first.name == "max" else (outer, bounds[0])
    return None
