"""One interpreter over programs; what a number is, is the domain's business.

For the domains of numpy arrays every value carries a leading batch axis of length 1 or B;
`Balls64` walks one point under JAX's own tracing and is batched by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gradcheck_cli.reals.program import Program, Step
from gradcheck_cli.reals.rules import RULES
from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.rules.unreal import REASONS


class Walker(Protocol):
    """A number domain: its rules, and what it makes of constants and of steps without a rule."""

    @property
    def rules(self) -> Mapping[str, Rule]: ...

    def constant(self, value: Any) -> Any: ...

    def kept(self, value: Any) -> Any: ...

    def native(self, step: Any, values: list[Any]) -> Sequence[Any]: ...


class NoRealMeaning(Exception):
    """A primitive has no rule over the reals."""

    def __init__(self, name: str) -> None:
        why = REASONS.get(name, "it is not known")
        super().__init__(f"the primitive `{name}` has no rule over the reals: {why}")
        self.name = name


def walk(program: Program, domain: Walker, args: Sequence[Any]) -> list[Any]:
    """Values of the program's outputs in the given domain; what nothing reads any more is let go."""
    slots = _filled(program, domain, args)
    last = {slot: i for i, step in enumerate(program.steps) for slot in step.ins}
    last |= dict.fromkeys(program.outputs, len(program.steps))
    for i, step in enumerate(program.steps):
        _done(step, domain, slots)
        for slot in (*step.ins, *step.outs):
            if last.get(slot, -1) <= i:
                slots[slot] = None
    return [slots[i] for i in program.outputs]


def all_slots(program: Program, domain: Walker, args: Sequence[Any]) -> list[Any]:
    """Values of everything on the way, by slot."""
    slots = _filled(program, domain, args)
    for step in program.steps:
        _done(step, domain, slots)
    return slots


def _filled(program: Program, domain: Walker, args: Sequence[Any]) -> list[Any]:
    """What is there before the first step."""
    slots: list[Any] = [None] * program.size
    for slot, value in program.constants.items():
        slots[slot] = domain.constant(value)
    for slot, value in zip(program.inputs, args, strict=True):
        slots[slot] = value
    return slots


def _done(step: Step, domain: Walker, slots: list[Any]) -> None:
    outs = apply(step, domain, [slots[i] for i in step.ins])
    for slot, value in zip(step.outs, outs, strict=True):
        slots[slot] = domain.kept(value)


def apply(step: Step, domain: Walker, values: list[Any]) -> Sequence[Any]:
    """The outputs of one step."""
    rule = domain.rules.get(step.name)
    if rule is None:
        return domain.native(step, values)
    return rule(domain, step, values, walk)


def uncovered(program: Program) -> Mapping[str, int]:
    """Primitives of float arguments without a rule, with how often each occurs.

    What integers and keys alone reach (random draws) runs natively and needs none.
    """
    counts: dict[str, int] = {}
    for step in program.all_steps():
        numbers = any(aval.kind in "fc" for aval in step.in_avals)
        outside = not step.in_avals and step.name in REASONS
        if (numbers or outside) and step.name not in RULES:
            counts[step.name] = counts.get(step.name, 0) + 1
    return counts
