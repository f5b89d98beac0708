"""A program whose discrete decisions fall as after a few roundings of what they are made of.

A mask `t <= last` at t = √(k² + 10⁻¹⁷) is False over the reals and True in every float: there the function
is decided by a rounding that nobody can help, whatever way t is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.reals.facts import Law, named
from gradcheck_cli.reals.program import Aval, Program, Slot, Step

_DECIDES = named(lambda facts: facts.steps or facts.law in (Law.COMPARISON, Law.ORDER))
_CASTS = named(lambda facts: facts.law is Law.CAST)
_MOVES = named(lambda facts: facts.moves or facts.law in (Law.IDENTITY, Law.PART))
_PATTERNS = (1.0, -1.0, *[None] * 4)  # all up, all down, each number its own way


def decided_otherwise(program: Program, by: float, seed: int) -> Iterator[Program]:
    """The program a few times, what its steps and comparisons look at moved by up to this part of itself."""
    decided = _decided(program)
    if not decided:
        return
    rng = np.random.default_rng(seed)
    for way in _PATTERNS:
        moves = {
            slot: 1 + by * (rng.uniform(-1, 1, aval.shape) if way is None else way * np.ones(aval.shape))
            for slot, aval in decided.items()
        }  # fmt: skip
        yield _moved(program, moves, decided)


def decides(program: Program) -> bool:
    """Does any step function or comparison look at floats, also in a loop's body? What has none takes no step."""
    return any(map(_decides, program.all_steps()))


def _decided(program: Program) -> dict[Slot, Aval]:
    """What is computed and then decides something, by slot."""
    computed: set[Slot] = set()
    for step in program.steps:
        if step.name not in _MOVES or not computed.isdisjoint(step.ins):
            computed.update(step.outs)
    decided: dict[Slot, Aval] = {}
    for step in program.steps:
        if not _decides(step):
            continue
        for slot, aval in zip(step.ins, step.in_avals, strict=True):
            if aval.kind == "f" and slot in computed:
                decided.setdefault(slot, aval)
                break  # of a comparison one side is enough
    return decided


def _decides(step: Step) -> bool:
    if step.name in _CASTS:
        return step.in_avals[0].kind == "f" and step.out_avals[0].kind == "i"
    return step.name in _DECIDES and step.in_avals[0].kind == "f"


def _moved(program: Program, moves: dict[Slot, Any], avals: dict[Slot, Aval]) -> Program:
    size = program.size
    constants = dict(program.constants)
    steps: list[Step] = []
    stands_for: dict[Slot, Slot] = {}
    for step in program.steps:
        for slot in step.ins if _decides(step) else ():
            if slot in moves and slot not in stands_for:
                aval = avals[slot]
                constants[size] = moves[slot]
                stands_for[slot] = size + 1
                steps.append(_product(slot, size, size + 1, aval))
                size += 2
        ins = tuple(stands_for.get(i, i) for i in step.ins)
        steps.append(replace(step, ins=ins) if _decides(step) else step)
    return replace(program, steps=tuple(steps), constants=constants, size=size)


def _product(left: Slot, right: Slot, out: Slot, aval: Aval) -> Step:
    return Step("mul", {}, (left, right), (out,), (aval, aval), (aval,), (), None)
