"""A program in which each step function (a rounding, a sign) hands a change on as the identity does.

Its values are the old ones; its gradients are those that a straight-through estimator means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.reals.facts import named
from gradcheck_cli.reals.program import SIGN_BIT, Aval, Program, Step, alive, build

STEPS = named(lambda facts: facts.steps)


def with_passed_steps(program: Program, arguments: int, values: int) -> Program | None:
    """The pullback (leaves…, cotangents…) → (values…, gradients…) of such a function; None: it takes no step.

    None, too, where JAX does not differentiate what is left of it.
    """
    steps = alive(program.steps, program.outputs[:values])
    rounds = any(step.name in STEPS and step.in_avals[0].kind == "f" for step in steps)
    if not rounds or any(step.name == SIGN_BIT or step.eqn is None for step in steps):
        return None

    def function(*leaves: Any) -> list[Any]:
        slots: list[Any] = [None] * program.size
        for slot, value in program.constants.items():
            slots[slot] = value
        for slot, leaf in zip(program.inputs[:arguments], leaves, strict=True):
            slots[slot] = leaf
        for step in steps:
            for slot, out in zip(step.outs, _outs(step, [slots[i] for i in step.ins]), strict=True):
                slots[slot] = out
        return [slots[slot] for slot in program.outputs[:values]]

    def pullback(*args: Any) -> list[Any]:
        outs, back = jax.vjp(function, *args[:arguments])
        return [*outs, *back(list(args[arguments:]))]

    try:
        with jax.enable_x64(True):
            return build(jax.make_jaxpr(pullback)(*map(_like, program.in_avals)))
    except (
        NotImplementedError,
        TypeError,
        ValueError,
    ):  # a loop without an end, or outputs that are integers
        return None


def _outs(step: Step, ins: Sequence[Any]) -> Sequence[Any]:
    args = [jnp.asarray(v, aval.dtype) if aval.kind != "k" else v for v, aval in zip(ins, step.in_avals, strict=True)]  # fmt: skip
    if step.name in STEPS and step.in_avals[0].kind == "f":
        return [_passed(step, args[0])]
    outs = step.eqn.primitive.bind(*args, **step.params)
    return list(outs) if step.eqn.primitive.multiple_results else [outs]


def _passed(step: Step, x: Any) -> Any:
    """The step itself, exactly; its tangent is the argument's."""

    @jax.custom_jvp
    def passed(x: Any) -> Any:
        return step.eqn.primitive.bind(x, **step.params)

    passed.defjvp(lambda primals, tangents: (passed(*primals), tangents[0]))
    return passed(x)


def _like(aval: Aval) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, np.dtype(aval.dtype))
