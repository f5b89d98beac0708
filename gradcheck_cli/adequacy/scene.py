"""A program with the names of its slots: where a step stands in the source, and what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradcheck_cli.adequacy.change import Part
from gradcheck_cli.project.framework_marks import PLUMBING
from gradcheck_cli.reals.facts import FACTS, Law
from gradcheck_cli.reals.program import Program, Slot
from gradcheck_cli.reals.source_spot import Spot, spot

_LONGEST = 28  # letters of an expression that stands for its value
# What a call of the library's does beside its arithmetic.
_SILENT = (Law.MOVE, Law.PICK, Law.CREATION, Law.IDENTITY, Law.CAST, Law.COMPARISON, Law.LOGIC)
_SMALL_CALL = 2


@dataclass(slots=True)
class Scene:
    """A program whose steps may be changed, but for those that make a `shared` slot."""

    part: Part
    program: Program
    names: Mapping[Slot, str]
    shared: frozenset[Slot] = frozenset()
    tables: Mapping[Slot, str] = field(default_factory=dict)  # constants that are arguments
    readers: dict[Slot, list[int]] = field(default_factory=dict)
    makers: dict[Slot, int] = field(default_factory=dict)
    _units: dict[int, list[int]] | None = None  # steps of one expression, by the first of them
    _unit_of: dict[int, int] = field(default_factory=dict)
    _spots: dict[int, Spot | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for i, step in enumerate(self.program.steps):
            for slot in step.ins:
                self.readers.setdefault(slot, []).append(i)
            for slot in step.outs:
                self.makers[slot] = i

    def spot(self, index: int) -> Spot | None:
        """The source of a step, looked up once."""
        if index not in self._spots:
            step = self.program.steps[index]
            self._spots[index] = None if step.eqn is None else spot(step, PLUMBING)
        return self._spots[index]

    def library_call(self, index: int) -> list[int]:
        """The steps of the library function that this one is a part of; none if the user wrote it.

        Many different operations at one expression are a function's, of which nobody writes one.
        """
        if self._units is None:
            self._units = self._by_expression()
        unit = self._units[self._unit_of[index]]
        kinds = {self.program.steps[i].name for i in unit if self._computes(i)}
        return unit if len(kinds) > _SMALL_CALL else []

    def _by_expression(self) -> dict[int, list[int]]:
        units: dict[int, list[int]] = {}
        first: dict[object, int] = {}
        for i, step in enumerate(self.program.steps):
            place = self.spot(i)
            key = id(step.call) if step.call is not None else i if place is None else place
            self._unit_of[i] = first.setdefault(key, i)
            units.setdefault(self._unit_of[i], []).append(i)
        return units

    def _computes(self, index: int) -> bool:
        step = self.program.steps[index]
        row = FACTS.get(step.name)
        return step.out_avals[0].kind in "fc" and (row is None or row.law not in _SILENT)

    def constant(self, slot: Slot) -> float | None:
        """The number that a slot holds, if it is one."""
        if slot not in self.program.constants:
            return None
        value = self.program.constants[slot]
        if getattr(value, "shape", ()) != () or getattr(value, "dtype", None) is None:
            return None
        if np.dtype(value.dtype).kind not in "fiub" and value.dtype.itemsize > 2:
            return None
        return float(value)

    def table(self, slot: Slot) -> str | None:
        """The argument of integers or flags that a value rests on, if it rests on nothing else."""
        waiting, found = [slot], None
        for here in waiting:
            if here in self.program.inputs or here in self.names:
                return None
            found = found or self.tables.get(here)
            if here in self.makers:
                step = self.program.steps[self.makers[here]]
                waiting += [s for s in step.ins if s not in waiting]
        return found

    def name(self, slot: Slot) -> str:
        """What the user calls a value: an argument, a number, an expression."""
        if slot in self.names or slot in self.tables:
            return self.names.get(slot) or self.tables[slot]
        number = self.constant(slot)
        if number is not None:
            return f"{number:g}"
        if slot not in self.makers:
            return "a constant"
        step = self.program.steps[self.makers[slot]]
        row = FACTS.get(step.name)
        if row is not None and (row.spreads or row.law in (Law.IDENTITY, Law.CAST)) and step.ins:
            return self.name(step.ins[0])
        return self.expression(self.makers[slot])

    def expression(self, index: int) -> str:
        """The expression that made a step, cut where it is long."""
        place = self.spot(index)
        if place is None or not place.text:
            return f"the {self.program.steps[index].name}"
        short = len(place.text) <= _LONGEST
        return place.text if short else place.text[: _LONGEST - 1] + "…"


def reach(program: Program, arguments: int) -> dict[Slot, frozenset[int]]:
    """The arguments that each slot rests on."""
    found = {slot: frozenset([i]) for i, slot in enumerate(program.inputs[:arguments])}
    nothing: frozenset[int] = frozenset()
    for step in program.steps:
        both = nothing.union(*(found.get(slot, nothing) for slot in step.ins))
        found.update(dict.fromkeys(step.outs, both))
    return found


def named(program: Program, leaves: Sequence[str]) -> dict[Slot, str]:
    """Names of a pullback's inputs: the arguments, then the cotangents."""
    cotangents = program.inputs[len(leaves) :]
    one = ["the cotangent"]
    many = [f"the cotangent of output {k}" for k in range(len(cotangents))]
    texts = (*leaves, *(one if len(cotangents) == 1 else many))
    return dict(zip(program.inputs, texts, strict=True))
