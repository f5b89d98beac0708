"""A program for a few elements of its outputs: only what these depend on is left.

Large gradients are judged at samples of their components. What a component needs is found
backwards: elementwise steps need the same elements, moves the elements that they move here,
reductions and products whole lines; any other step needs all that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradcheck_cli.reals.facts import FACTS, Law
from gradcheck_cli.reals.program import Aval, Program, Slot, Step
from gradcheck_cli.reals.rules import structure

Array = np.ndarray[Any, Any]

PICK = structure.PICK
_OUTSIDE = -1


def restrict(program: Program, wanted: Sequence[Array]) -> Program:
    """The elements with these numbers of each output (flat, in their order)."""
    maker = _Maker(program)
    for slot, numbers in zip(program.outputs, wanted, strict=True):
        maker.ask(slot, numbers)
    plans = {}
    for step in reversed(program.steps):
        if any(slot in maker.needs for slot in step.outs):
            plans[step.outs] = plan = _plan(step, maker)
            for slot, numbers in plan.asks:
                maker.ask(slot, numbers)
    for step in program.steps:
        if step.outs in plans:
            plans[step.outs].make(maker)
    outputs = tuple(
        maker.elements(slot, np.asarray(numbers))
        for slot, numbers in zip(program.outputs, wanted, strict=True)
    )
    return maker.done(outputs)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which elements of which operands a step needs, and how its results are then made."""

    asks: Sequence[tuple[Slot, Array]]
    make: Callable[[_Maker], None]


@dataclass(slots=True)
class _Maker:
    """A new program in the making. A slot of the old one is whole, or some of its elements."""

    program: Program
    needs: dict[Slot, Array] = field(default_factory=dict)  # sorted numbers of elements
    whole: dict[Slot, Slot] = field(default_factory=dict)
    some: dict[Slot, Slot] = field(default_factory=dict)
    avals: list[Aval] = field(default_factory=list)
    old: dict[Slot, Aval] = field(default_factory=dict)
    constants: dict[Slot, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    inputs: tuple[Slot, ...] = ()
    pieces: dict[Any, Slot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for step in self.program.steps:
            self.old.update(zip(step.ins, step.in_avals, strict=True))
            self.old.update(zip(step.outs, step.out_avals, strict=True))
        self.old.update(zip(self.program.inputs, self.program.in_avals, strict=True))
        self.old.update(zip(self.program.outputs, self.program.out_avals, strict=True))
        self.inputs = tuple(self.slot(aval) for aval in self.program.in_avals)
        self.whole.update(zip(self.program.inputs, self.inputs, strict=True))

    def ask(self, slot: Slot, numbers: Array) -> None:
        before = self.needs.get(slot)
        flat = np.unique(numbers)
        self.needs[slot] = flat if before is None else np.union1d(before, flat)

    def slot(self, aval: Aval) -> Slot:
        self.avals.append(aval)
        return len(self.avals) - 1

    def add(self, step: Step, name: str, params: dict[str, Any], ins: Sequence[Slot], outs: Sequence[Aval]) -> tuple[Slot, ...]:  # fmt: skip
        """A new step; `step` says which old one it stands for."""
        slots = tuple(self.slot(aval) for aval in outs)
        self.steps.append(
            replace(
                step,
                name=name,
                params=params,
                ins=tuple(ins),
                outs=slots,
                in_avals=tuple(self.avals[i] for i in ins),
                out_avals=tuple(outs),
                subs=step.subs if name == step.name else (),
            )
        )
        return slots

    def elements(self, slot: Slot, numbers: Array) -> Slot:
        """A new slot that holds these elements of an old one, in this shape."""
        key = (slot, numbers.shape, numbers.tobytes())
        if key not in self.pieces:
            self.pieces[key] = self._elements(slot, numbers)
        return self.pieces[key]

    def _elements(self, slot: Slot, numbers: Array) -> Slot:
        aval = Aval(numbers.shape, self.old[slot].dtype)
        if slot in self.program.constants:
            new = self.slot(aval)
            value = np.asarray(self.program.constants[slot]).reshape(-1)[numbers]
            self.constants[new] = jnp.asarray(value) if value.dtype.kind == "V" else value
            return new
        if slot in self.whole:
            source, places = self.whole[slot], numbers
        else:
            source, places = self.some[slot], np.searchsorted(self.needs[slot], numbers)
            if numbers.shape == self.needs[slot].shape and np.array_equal(
                numbers, self.needs[slot]
            ):
                return source
        (new,) = self.add(_ANY, PICK, {"numbers": places}, [source], [aval])
        return new

    def all(self, slot: Slot) -> Slot:
        """A new slot that holds an old one whole."""
        if slot not in self.whole:
            aval = self.old[slot]
            if slot in self.program.constants:
                self.whole[slot] = self.slot(aval)
                self.constants[self.whole[slot]] = self.program.constants[slot]
            else:
                places = np.arange(_size(aval)).reshape(aval.shape)
                (self.whole[slot],) = self.add(_ANY, PICK, {"numbers": places}, [self.some[slot]], [aval])  # fmt: skip
        return self.whole[slot]

    def done(self, outputs: tuple[Slot, ...]) -> Program:
        return Program(
            steps=tuple(self.steps),
            inputs=self.inputs,
            outputs=outputs,
            constants=self.constants,
            size=len(self.avals),
            in_avals=self.program.in_avals,
            out_avals=tuple(self.avals[i] for i in outputs),
        )


_ANY = Step(PICK, {}, (), (), (), (), (), None)


def _size(aval: Aval) -> int:
    return int(np.prod(aval.shape, dtype=int))


def _plan(step: Step, maker: _Maker) -> _Plan:
    """The most sparing way in which this step can be made."""
    row = FACTS.get(step.name)
    if row is None:
        return _dense(step)
    if row.pointwise and _alike(step):
        return _elementwise(step, maker)
    if row.law is Law.MOVE:
        return _moved(step, maker, step.ins, _numbered(step))
    if step.name == "gather" and step.ins[1] in maker.program.constants:
        numbers = _gathered(step, maker)
        if numbers is not None:
            return _moved(step, maker, step.ins[:1], [numbers])
    if row.law is Law.REDUCTION:
        return _reduced(step, maker)
    if step.name == "dot_general" and all(a.kind == "f" for a in step.in_avals):
        return _product(step, maker)
    return _dense(step)


def _alike(step: Step) -> bool:
    """One result, over whose shape every operand spreads."""
    shape = step.out_avals[0].shape
    return len(step.outs) == 1 and all(
        not aval.shape
        or (
            len(aval.shape) == len(shape)
            and all(n in (1, m) for n, m in zip(aval.shape, shape, strict=True))
        )
        for aval in step.in_avals
    )


def _elementwise(step: Step, maker: _Maker) -> _Plan:
    (out,) = step.outs
    need = maker.needs[out]
    asks = []
    for slot, aval in zip(step.ins, step.in_avals, strict=True):
        numbers = np.arange(_size(aval)).reshape(aval.shape)
        asks.append((slot, np.broadcast_to(numbers, step.out_avals[0].shape).reshape(-1)[need]))

    def make(maker: _Maker) -> None:
        ins = [maker.elements(slot, numbers) for slot, numbers in asks]
        aval = Aval(need.shape, step.out_avals[0].dtype)
        (maker.some[out],) = maker.add(step, step.name, step.params, ins, [aval])

    return _Plan(asks, make)


def _numbered(step: Step) -> list[Array]:
    """For each result: which element (of all operands in a row) stands where."""
    values, first = [], 0
    for aval in step.in_avals:
        count = _size(aval)
        values.append(np.arange(first, first + count).reshape(1, *aval.shape))
        first += count
    results = structure.TABLE[step.name](None, step, values, lambda *_: [])
    return [np.asarray(v)[0] for v in results]


def _gathered(step: Step, maker: _Maker) -> Array | None:
    numbers = jnp.arange(_size(step.in_avals[0])).reshape(step.in_avals[0].shape)
    indices = jnp.asarray(maker.program.constants[step.ins[1]])
    taken = np.asarray(
        lax.gather_p.bind(numbers, indices, **{**step.params, "fill_value": _OUTSIDE})
    )
    outside = (taken.reshape(-1)[maker.needs[step.outs[0]]] == _OUTSIDE).any()
    return None if outside else taken


def _moved(step: Step, maker: _Maker, ins: Sequence[Slot], numbered: Sequence[Array]) -> _Plan:
    """Elements of several operands stand in a row: each has a stretch of its own."""
    sizes = [_size(maker.old[slot]) for slot in ins]
    starts = np.cumsum([0, *sizes])
    wanted = {
        out: numbers.reshape(-1)[maker.needs[out]]
        for out, numbers in zip(step.outs, numbered, strict=True)
        if out in maker.needs
    }
    parts = []
    for k, slot in enumerate(ins):
        mine = [n[(n >= starts[k]) & (n < starts[k + 1])] - starts[k] for n in wanted.values()]
        parts.append((slot, np.unique(np.concatenate(mine))))

    def make(maker: _Maker) -> None:
        held = [maker.elements(slot, numbers) for slot, numbers in parts]
        row = np.concatenate([numbers + start for (_, numbers), start in zip(parts, starts[:-1], strict=True)])  # fmt: skip
        for out, numbers in wanted.items():
            places = np.searchsorted(row, numbers)
            aval = Aval(numbers.shape, maker.old[out].dtype)
            (maker.some[out],) = maker.add(_ANY, PICK, {"numbers": places}, held, [aval])

    return _Plan(parts, make)


def _reduced(step: Step, maker: _Maker) -> _Plan:
    (x,), (out,) = step.ins, step.outs
    axes = step.params["axes"]
    shape = step.in_avals[0].shape
    numbers = np.arange(_size(step.in_avals[0])).reshape(shape)
    kept = [a for a in range(len(shape)) if a not in axes]
    count = int(np.prod([shape[a] for a in axes], dtype=int))
    lines = numbers.transpose(*kept, *axes).reshape(-1, count)[maker.needs[out]]

    def make(maker: _Maker) -> None:
        held = maker.elements(x, lines)
        aval = Aval(lines.shape[:1], step.out_avals[0].dtype)
        (maker.some[out],) = maker.add(step, step.name, {**step.params, "axes": (1,)}, [held], [aval])  # fmt: skip

    return _Plan([(x, lines)], make)


def _product(step: Step, maker: _Maker) -> _Plan:
    """A row of one operand times a column of the other, for each element."""
    (a, b), (out,) = step.ins, step.outs
    sides = []
    (sums, batches) = step.params["dimension_numbers"]
    place = np.unravel_index(maker.needs[out], step.out_avals[0].shape)
    heads = len(batches[0])
    after = heads
    for aval, summed, batch in zip(step.in_avals, sums, batches, strict=True):
        numbers = np.arange(_size(aval)).reshape(aval.shape)
        free = [d for d in range(len(aval.shape)) if d not in (*summed, *batch)]
        ordered = numbers.transpose(*batch, *free, *summed)
        index = (*place[:heads], *place[after : after + len(free)])
        after += len(free)
        rows = (len(maker.needs[out]), *(aval.shape[d] for d in summed))
        # An operand that is summed whole is the same for every element.
        sides.append(np.broadcast_to(ordered[index], rows).reshape(rows[0], -1))

    def make(maker: _Maker) -> None:
        left, right = maker.elements(a, sides[0]), maker.elements(b, sides[1])
        dtype = step.out_avals[0].dtype
        (terms,) = maker.add(step, "mul", {}, [left, right], [Aval(sides[0].shape, dtype)])
        aval = Aval(sides[0].shape[:1], dtype)
        (maker.some[out],) = maker.add(step, "reduce_sum", {"axes": (1,)}, [terms], [aval])

    return _Plan([(a, sides[0]), (b, sides[1])], make)


def _dense(step: Step) -> _Plan:
    asks = [(s, np.arange(_size(aval))) for s, aval in zip(step.ins, step.in_avals, strict=True)]

    def make(maker: _Maker) -> None:
        ins = [maker.all(slot) for slot in step.ins]
        outs = maker.add(step, step.name, step.params, ins, step.out_avals)
        maker.whole.update(zip(step.outs, outs, strict=True))

    return _Plan(asks, make)
