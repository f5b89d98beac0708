"""A jaxpr made ready to walk: calls inlined, equal steps shared, dead steps gone.

Sharing equal steps is not an optimisation only: it is what keeps identical
values identical (SEMANTICS C1), across `jit` boundaries too.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jax.extend import core as jex

from gradcheck_cli.reals.inner_jaxprs import inlined, is_jaxs_own, subprograms

Slot = int
BITS, SIGN_BIT = "bitcast_convert_type", "sign_bit"


@dataclass(frozen=True, slots=True)
class Aval:
    """Shape and dtype of one value, without its batch axis."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | Any

    @property
    def kind(self) -> str:
        """One of f (float), c (complex), i (integer), b (boolean), k (opaque, such as a key)."""
        kind = getattr(self.dtype, "kind", "k")
        if kind == "V" and getattr(self.dtype, "name", "") in _SMALL_FLOATS:
            return "f"
        return {"u": "i", "f": "f", "c": "c", "i": "i", "b": "b"}.get(kind, "k")


_SMALL_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive applied to slots."""

    name: str
    params: dict[str, Any]
    ins: tuple[Slot, ...]
    outs: tuple[Slot, ...]
    in_avals: tuple[Aval, ...]
    out_avals: tuple[Aval, ...]
    subs: tuple[Program, ...]
    eqn: Any
    call: Any = None  # the equation that calls the function of JAX's which this is a step of
    again: tuple[Any, Any] | None = None  # equation and call of the last step that is equal to it

    @property
    def last(self) -> Step:
        """The step where it stands for the last time: what a rule computes once more, in the rule."""
        return self if self.again is None else replace(self, eqn=self.again[0], call=self.again[1])


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Program:
    """Straight-line steps over numbered slots; control flow holds programs of its own."""

    steps: tuple[Step, ...]
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    constants: dict[Slot, Any]
    size: int
    in_avals: tuple[Aval, ...]
    out_avals: tuple[Aval, ...]

    def numbers(self, names: Container[str] | None = None) -> int:
        """How many numbers the steps make (or those of some primitives), loops counted once."""
        return sum(
            math.prod(aval.shape)
            for step in self.all_steps()
            if names is None or step.name in names
            for aval in step.out_avals
        )

    def primitives(self) -> frozenset[str]:
        """Names of all primitives, those of inner programs included."""
        names = {step.name for step in self.steps}
        for step in self.steps:
            for sub in step.subs:
                names |= sub.primitives()
        return frozenset(names)

    def all_steps(self) -> list[Step]:
        """Every step, those of inner programs included."""
        steps: list[Step] = []
        for step in self.steps:
            steps.append(step)
            for sub in step.subs:
                steps.extend(sub.all_steps())
        return steps

    def all_constants(self) -> list[Any]:
        """Every constant, those of inner programs included."""
        constants = list(self.constants.values())
        for step in self.steps:
            for sub in step.subs:
                constants.extend(sub.all_constants())
        return constants


@dataclass(slots=True)
class _Builder:
    steps: list[Step] = field(default_factory=list)
    constants: dict[Slot, Any] = field(default_factory=dict)
    avals: list[Aval] = field(default_factory=list)
    equal_steps: dict[Any, int] = field(default_factory=dict)  # their places
    literals: dict[Any, Slot] = field(default_factory=dict)
    bits_of: dict[Slot, Slot] = field(default_factory=dict)  # integers that are a float's bits

    def slot(self, aval: Any) -> Slot:
        self.avals.append(Aval(tuple(aval.shape), aval.dtype))
        return len(self.avals) - 1

    def constant(self, value: Any, aval: Any) -> Slot:
        if isinstance(value, (bool, int, float)):
            value = np.asarray(value, aval.dtype)  # a Python number is one of its dtype's
        key = _literal_key(value, aval)
        if key in self.literals:
            return self.literals[key]
        slot = self.slot(aval)
        self.constants[slot] = value
        self.literals[key] = slot
        return slot

    def inline(
        self, jaxpr: Any, consts: Sequence[Any], args: Sequence[Slot], call: Any = None
    ) -> list[Slot]:
        env: dict[Any, Slot] = dict(zip(jaxpr.invars, args, strict=True))
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            env[var] = self.constant(const, var.aval)

        def read(atom: Any) -> Slot:
            if isinstance(atom, jex.Literal):
                return self.constant(atom.val, atom.aval)
            return env[atom]

        for eqn in jaxpr.eqns:
            ins = tuple(read(atom) for atom in eqn.invars)
            closed = inlined(eqn)
            if closed is None:
                outs = self.step(eqn, ins, call)
            else:
                caller = call or (eqn if is_jaxs_own(closed) else None)
                outs = tuple(self.inline(closed.jaxpr, closed.consts, ins, caller))
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def step(self, eqn: Any, ins: tuple[Slot, ...], call: Any) -> tuple[Slot, ...]:
        key = (eqn.primitive.name, ins, _params_key(eqn.params))
        if key in self.equal_steps:
            place = self.equal_steps[key]
            self.steps[place] = replace(self.steps[place], again=(eqn, call))
            return self.steps[place].outs
        outs = tuple(self.slot(var.aval) for var in eqn.outvars)
        name = eqn.primitive.name
        if name == BITS and self.avals[ins[0]].kind == "f":
            self.bits_of[outs[0]] = ins[0]
        elif self._is_sign(name, ins):  # the one question to the bits that the reals can answer
            name, ins = SIGN_BIT, (self.bits_of[ins[0]],)
        self.steps.append(
            Step(
                name=name,
                params=eqn.params,
                ins=ins,
                outs=outs,
                in_avals=tuple(self.avals[i] for i in ins),
                out_avals=tuple(self.avals[i] for i in outs),
                subs=tuple(build(sub) for sub in subprograms(eqn)),
                eqn=eqn,
                call=call,
            )
        )
        self.equal_steps[key] = len(self.steps) - 1
        return outs

    def _is_sign(self, name: str, ins: tuple[Slot, ...]) -> bool:
        """Is this the top bit of a float: its bits, shifted to the right by all but one?"""
        if name != "shift_right_arithmetic" or ins[0] not in self.bits_of:
            return False
        by = np.unique(np.asarray(self.constants.get(ins[1], ())))
        return by.size == 1 and int(by[0]) == 8 * self.avals[ins[0]].dtype.itemsize - 1


def build(closed: Any) -> Program:
    """Flatten a closed jaxpr into a program."""
    builder = _Builder()
    inputs = tuple(builder.slot(var.aval) for var in closed.jaxpr.invars)
    outputs = tuple(builder.inline(closed.jaxpr, closed.consts, inputs))
    steps = alive(builder.steps, outputs)
    read = {slot for step in steps for slot in step.ins} | set(outputs)
    return Program(
        steps=steps,
        inputs=inputs,
        outputs=outputs,
        constants={slot: v for slot, v in builder.constants.items() if slot in read},
        size=len(builder.avals),
        in_avals=tuple(builder.avals[i] for i in inputs),
        out_avals=tuple(builder.avals[i] for i in outputs),
    )


def alive(steps: Sequence[Step], outputs: Sequence[Slot]) -> tuple[Step, ...]:
    """The steps that these slots rest on, in their order."""
    needed = set(outputs)
    kept: list[Step] = []
    for step in reversed(steps):
        if needed.intersection(step.outs):
            kept.append(step)
            needed.update(step.ins)
    return tuple(reversed(kept))


def _literal_key(value: Any, aval: Any) -> Any:
    if getattr(aval, "shape", None) == () and isinstance(
        value, (bool, int, float, np.generic, np.ndarray)
    ):
        return (str(aval.dtype), np.asarray(value).tobytes())
    return id(value)


def _params_key(params: dict[str, Any]) -> Any:
    """Equal only if the steps are equal; anything unhashable is its own key."""
    try:
        key = tuple(sorted(params.items(), key=lambda item: item[0]))
        hash(key)
    except TypeError:
        return object()
    return key
