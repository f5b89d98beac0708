"""A program with a few of its steps replaced; steps that stand are the same objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradcheck_cli.reals.program import Aval, Program, Slot, Step

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Editor:
    """New slots and constants for steps that replace others."""

    program: Program
    constants: dict[Slot, Any] = field(default_factory=dict)
    size: int = 0

    def __post_init__(self) -> None:
        self.size = self.program.size

    def slot(self) -> Slot:
        self.size += 1
        return self.size - 1

    def constant(self, value: Any) -> Slot:
        slot = self.slot()
        self.constants[slot] = np.asarray(value)
        return slot

    def done(
        self, steps: Mapping[int, Sequence[Step]], outputs: Sequence[Slot] | None = None
    ) -> Program:
        """The program with these steps in the places of those with these numbers."""
        new = [s for i, step in enumerate(self.program.steps) for s in steps.get(i, (step,))]
        return replace(
            self.program,
            steps=tuple(new),
            constants={**self.program.constants, **self.constants},
            size=self.size,
            outputs=self.program.outputs if outputs is None else tuple(outputs),
        )


def made(
    step: Step, name: str, params: Mapping[str, Any], ins: Sequence[Slot], out: Slot | None = None
) -> Step:
    """Another primitive in the place of a step: one result, in the step's slot if none is named."""
    avals = dict(zip(step.ins, step.in_avals, strict=True))
    out_aval = step.out_avals[0]
    return replace(
        step,
        name=name,
        params=dict(params),
        ins=tuple(ins),
        outs=(step.outs[0] if out is None else out,),
        in_avals=tuple(avals.get(slot, Aval(out_aval.shape, out_aval.dtype)) for slot in ins),
        out_avals=(out_aval,),
        subs=(),
    )


def grafted(program: Program, other: Program) -> Program:
    """Another program of these arguments, in slots of its own: as if every step had been replaced."""
    places = {slot: program.size + slot for slot in range(other.size)}
    places.update(zip(other.inputs, program.inputs, strict=True))
    steps = tuple(
        replace(
            step,
            ins=tuple(places[s] for s in step.ins),
            outs=tuple(places[s] for s in step.outs),
        )
        for step in other.steps
    )
    return replace(
        program,
        steps=steps,
        constants={
            **program.constants,
            **{places[slot]: value for slot, value in other.constants.items()},
        },
        size=program.size + other.size,
        outputs=tuple(places[s] for s in other.outputs),
    )
