"""Both branches may be right, and the condition that chooses between them wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.project.framework_marks import PLUMBING
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.source_spot import spot

Array = np.ndarray[Any, Any]

_MOST_CHOICES = 8
_GOAL = 48


def wrong_choice(program: Program, output: int, args: Sequence[Array], truth: Array) -> str | None:
    """The choice of the rule that must go the other way for an output to be the truth at these rows."""
    choices = [
        n for n, step in enumerate(program.steps) if step.name == "select_n" and len(step.ins) == 3
    ]
    for n in choices[:_MOST_CHOICES]:
        other = enclose(_turned(program, n), args, goal=_GOAL).outs[output]
        if all(
            a.is_finite() and a.overlaps(b) for a, b in zip(other.flat, truth.flat, strict=True)
        ):
            place = spot(program.steps[n], PLUMBING)
            where = "" if place is None else f" of `{place.text}` (line {place.line})"
            return f"the condition{where} chooses the wrong branch: the other one is right there"
    return None


def _turned(program: Program, n: int) -> Program:
    """The program whose n-th step chooses the other way."""
    step = program.steps[n]
    which, no, yes = step.ins
    _, no_aval, yes_aval = step.in_avals
    turned = replace(step, ins=(which, yes, no), in_avals=(step.in_avals[0], yes_aval, no_aval))
    return replace(program, steps=(*program.steps[:n], turned, *program.steps[n + 1 :]))
