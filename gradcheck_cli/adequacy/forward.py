"""Parts of a traced pullback: what its values alone need, what its gradients alone need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.reals.program import Program, Slot, alive


def forward(program: Program, arguments: int, values: int) -> Program:
    """(leaves…) → (values…), of (leaves…, cotangents…) → (values…, gradients…)."""
    part = _part(program, program.outputs[:values])
    return replace(
        part,
        inputs=program.inputs[:arguments],
        in_avals=program.in_avals[:arguments],
        out_avals=program.out_avals[:values],
    )


def backward(program: Program, values: int) -> Program:
    """(leaves…, cotangents…) → (gradients…)."""
    part = _part(program, program.outputs[values:])
    return replace(part, out_avals=program.out_avals[values:])


def shared(program: Program, values: int) -> frozenset[Slot]:
    """Slots that the values rest on: what the rule shares with the function's own text."""
    steps = alive(program.steps, program.outputs[:values])
    return frozenset(slot for step in steps for slot in step.outs)


def _part(program: Program, outputs: Sequence[Slot]) -> Program:
    steps = alive(program.steps, outputs)
    read = {slot for step in steps for slot in step.ins} | set(outputs)
    constants = {slot: value for slot, value in program.constants.items() if slot in read}
    return replace(program, steps=steps, outputs=tuple(outputs), constants=constants)
