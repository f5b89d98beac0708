"""A program in which each step function (a rounding, a sign), or each bound too, hands a change on as the identity does.

Its values are the old ones; its gradients are those that a straight-through estimator means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.reals.facts import named
from gradcheck_cli.reals.program import SIGN_BIT, Aval, Program, Step, alive, build

STEPS = named(lambda facts: facts.steps)
_BOUNDS = frozenset({"clamp", "max", "min"})


def with_passed_steps(
    program: Program, arguments: int, values: int, bounds: bool = False
) -> Program | None:
    """The pullback (leaves…, cotangents…) → (values…, gradients…) of such a function; None: it takes no step.

    Of a function without steps its bounds are passed if that is asked for: what is clamped goes on as it came.
    None, too, where JAX does not differentiate what is left of it.
    """
    steps = alive(program.steps, program.outputs[:values])
    passed = {i: place for i, step in enumerate(steps) if (place := _passing(step)) is not None}
    if bounds and not passed:  # a quantizer's own bounds end its gradient
        passed = dict(_bounded(steps, program))
    if not passed or any(step.name == SIGN_BIT or step.eqn is None for step in steps):
        return None

    def function(*leaves: Any) -> list[Any]:
        slots: list[Any] = [None] * program.size
        for slot, value in program.constants.items():
            slots[slot] = value
        for slot, leaf in zip(program.inputs[:arguments], leaves, strict=True):
            slots[slot] = leaf
        for i, step in enumerate(steps):
            given = [slots[slot] for slot in step.ins]
            for slot, out in zip(step.outs, _outs(step, given, passed.get(i)), strict=True):
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


def _passing(step: Step) -> int | None:
    """Which operand a step function hands on."""
    return 0 if step.name in STEPS and step.in_avals[0].kind == "f" else None


def _bounded(steps: Sequence[Step], program: Program) -> Iterator[tuple[int, int]]:
    """The steps that keep a computed number within constant bounds, each with the operand that is kept."""
    computed = set(program.inputs)
    for number, step in enumerate(steps):
        own = [place for place, slot in enumerate(step.ins) if slot in computed]
        if own:
            computed.update(step.outs)
        if step.name in _BOUNDS and len(own) == 1 and step.in_avals[own[0]].kind == "f":
            yield number, own[0]


def _outs(step: Step, ins: Sequence[Any], passed: int | None) -> Sequence[Any]:
    args = [jnp.asarray(v, aval.dtype) if aval.kind != "k" else v for v, aval in zip(ins, step.in_avals, strict=True)]  # fmt: skip
    if passed is not None:
        return [_passed(step, args, passed)]
    outs = step.eqn.primitive.bind(*args, **step.params)
    return list(outs) if step.eqn.primitive.multiple_results else [outs]


def _passed(step: Step, args: Sequence[Any], place: int) -> Any:
    """The step itself, exactly; its tangent is that of the operand at this place."""
    before, after = args[:place], args[place + 1 :]

    @jax.custom_jvp
    def passed(x: Any) -> Any:
        return step.eqn.primitive.bind(*before, x, *after, **step.params)

    passed.defjvp(lambda primals, tangents: (passed(*primals), tangents[0]))
    return passed(args[place])


def _like(aval: Aval) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, np.dtype(aval.dtype))
