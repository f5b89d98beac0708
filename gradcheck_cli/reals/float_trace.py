"""Each value as float and ball together: where a program's floats leave its reals.

The float side runs each step as the framework does, one after the other; the ball
side walks the same steps. A step can be repaired (its floats replaced by the rounded
truth) and the rest replayed: that tells whether its error explains the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.facts import OPEN_LOOPS
from gradcheck_cli.reals.program import SIGN_BIT, Program, Step
from gradcheck_cli.reals.walk import apply

Array = np.ndarray[Any, Any]

_MOST_STEPS = 2000


@dataclass(slots=True)
class Shadow:
    """All values of one run: floats and balls by slot."""

    program: Program
    floats: list[Any]
    balls: list[Any]

    def outputs(self) -> list[Any]:
        return [self.floats[slot] for slot in self.program.outputs]

    def producer(self, slot: int) -> Step | None:
        return next((step for step in self.program.steps if slot in step.outs), None)

    def repaired(self, index: int) -> list[Any]:
        """The outputs if this step had given the rounded truth."""
        floats = list(self.floats)
        step = self.program.steps[index]
        for slot in step.outs:
            floats[slot] = _rounded(self.balls[slot], floats[slot])
        for later in self.program.steps[index + 1 :]:
            outs = _run(later, [floats[i] for i in later.ins])
            for slot, value in zip(later.outs, outs, strict=True):
                floats[slot] = value
        return [floats[slot] for slot in self.program.outputs]


def shadow(program: Program, args: Sequence[Array], bits: int) -> Shadow | None:
    """Run one point both ways; None for a program too long to look into, or that may never end in floats."""
    if len(program.steps) > _MOST_STEPS or program.primitives() & OPEN_LOOPS:
        return None
    floats: list[Any] = [None] * program.size
    balls: list[Any] = [None] * program.size
    with working(bits):
        domain = Balls(1)
        for slot, value in program.constants.items():
            floats[slot], balls[slot] = value, domain.constant(value)
        for slot, aval, value in zip(program.inputs, program.in_avals, args, strict=True):
            floats[slot] = np.asarray(value).astype(aval.dtype)
            balls[slot] = exact(np.asarray(value)[None])
        for step in program.steps:
            floats_out = _run(step, [floats[i] for i in step.ins])
            balls_out = apply(step, domain, [balls[i] for i in step.ins])
            for slot, value, ball in zip(step.outs, floats_out, balls_out, strict=True):
                floats[slot], balls[slot] = value, ball
    return Shadow(program, floats, balls)


def _run(step: Step, values: Sequence[Any]) -> list[Any]:
    """One step in the framework's floats, by itself."""
    if step.name == SIGN_BIT:
        return [-np.signbit(np.asarray(values[0])).astype(step.out_avals[0].dtype)]
    with jax.enable_x64(True):  # 64-bit values stay what they are
        args = [
            v if isinstance(v, jax.Array) else jax.numpy.asarray(np.asarray(v).astype(aval.dtype))
            for v, aval in zip(values, step.in_avals, strict=True)
        ]
        outs = step.eqn.primitive.bind(*args, **step.params)
    return list(outs) if step.eqn.primitive.multiple_results else [outs]


def _rounded(balls: Any, like: Any) -> Any:
    """The floats nearest to the balls, where these are known."""
    if not isinstance(balls, np.ndarray) or balls.dtype != object:
        return like
    shape, dtype = np.shape(like), like.dtype
    if dtype.kind == "c":
        return like
    flat = [float(b.mid()) if b.is_finite() else float("nan") for b in balls.reshape(-1)]
    with np.errstate(over="ignore"):
        nearest = np.array(flat).reshape(shape).astype(dtype)
    return np.where(np.isnan(nearest), np.asarray(like), nearest)


def single(balls: Array) -> Array:
    """The one point of a batch, as an array even if it is a single number."""
    return balls.reshape(balls.shape[1:])
