"""Random draws are data: what draws and constants alone make is a constant, the floats that the program computes.

The reals have nothing to say of how a sampler rounds: that is the library's, and the same in every program.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax

from gradcheck_cli.reals.balls.domain import on_device
from gradcheck_cli.reals.facts import Law, named
from gradcheck_cli.reals.program import Program, Slot, Step, alive, build

_DRAWS = named(lambda facts: facts.law is Law.DRAW)


def program_of(closed: Any) -> Program:
    """The program of a closed jaxpr, with its draws done."""
    program = build(closed)
    return _settled(program) if any(step.name in _DRAWS for step in program.steps) else program


def _settled(program: Program) -> Program:
    made = {slot: step for step in program.steps for slot in step.outs}
    known = _Known(made, dict(program.constants))
    drawn: set[Slot] = set()
    for step in program.steps:
        rests_on_one = step.name in _DRAWS or not drawn.isdisjoint(step.ins)
        if rests_on_one and known.all(step.outs):
            drawn.update(step.outs)
    left = [step for step in program.steps if drawn.isdisjoint(step.outs)]
    steps = alive(left, program.outputs)
    read = {slot for step in steps for slot in step.ins} | set(program.outputs)
    constants = {slot: value for slot, value in known.values.items() if slot in read and (slot in drawn or slot in program.constants)}  # fmt: skip
    return replace(program, steps=steps, constants=constants)


@dataclass(slots=True)
class _Known:
    """Values that rest on no input, computed when they are asked for."""

    made: dict[Slot, Step]
    values: dict[Slot, Any]
    unknown: set[Slot] = field(default_factory=set)

    def all(self, slots: tuple[Slot, ...]) -> bool:
        return all(self._is_known(slot) for slot in slots)

    def _is_known(self, slot: Slot) -> bool:
        if slot in self.values or slot in self.unknown:
            return slot in self.values
        step = self.made.get(slot)
        if step is None or step.subs or not self.all(step.ins):
            self.unknown.add(slot)
            return False
        arguments = [self.values[i] for i in step.ins]
        with jax.enable_x64(True):  # 64-bit steps stay what they are
            outs = step.eqn.primitive.bind(*map(on_device, arguments), **step.params)
        results = outs if step.eqn.primitive.multiple_results else [outs]
        self.values.update(zip(step.outs, results, strict=True))
        return True
