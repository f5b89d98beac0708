"""Floats beside the truth at some rows of one subject: frozen, with what follows from them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.inputs.cotangents import BASE, cotangent
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.inputs.lattice import BEYOND, Points
from gradcheck_cli.measure.ball_truth import Truth
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.reference import Reference
from gradcheck_cli.measure.sources import Sources
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.enclose import DEAR
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Floats

Array = np.ndarray[Any, Any]

_PART = re.compile(r"\.(?:real|imag)$")


@dataclass(frozen=True, slots=True)
class Probe:
    """What a law asks for: a point by its number, a cotangent by its name."""

    point: int
    cotangent: str


def read_only(array: Array) -> Array:
    """The array itself, which nobody can write to from now on."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Rows:
    """The numbers of some probes of one subject, a row a probe, before anything is measured."""

    subject: Subject
    fmt: Format
    seed: int
    probes: list[Probe]
    points: list[Array]
    cotangents: list[Array]
    recipes: list[str]

    @classmethod
    def of(cls, subject: Subject, points: Points, probes: Sequence[Probe], seed: int) -> Rows:
        """The rows of these probes, each once."""
        probes = list(dict.fromkeys(probes))
        index = np.array([p.point for p in probes], int)
        named = {name: cotangent(name, subject.outputs) for name in {p.cotangent for p in probes}}
        cotangents = [
            np.stack([named[p.cotangent][k] for p in probes]) for k in range(len(subject.outputs))
        ]
        return Rows(
            subject, format_of(subject.dtype), seed, probes, [leaf[index] for leaf in points.leaves],
            cotangents, [points.recipes[i] for i in index],
        )  # fmt: skip

    @property
    def count(self) -> int:
        return len(self.probes)

    @property
    def in_part(self) -> bool:
        """Are only some of the subject's components judged?"""
        return self.subject.sample is not None

    def row(self, probe: Probe) -> int | None:
        return self._numbers.get(probe)

    @functools.cached_property
    def _numbers(self) -> dict[Probe, int]:
        return {probe: row for row, probe in enumerate(self.probes)}

    @functools.cached_property
    def arguments(self) -> dict[str, list[int]]:
        """The arguments by name, each with its leaves: both parts of a complex number are one."""
        found: dict[str, list[int]] = {}
        for i, leaf in enumerate(self.subject.leaves):
            found.setdefault(_PART.sub("", leaf.path), []).append(i)
        return found

    @functools.cached_property
    def sizes(self) -> frozenset[int]:
        """Numbers of elements in the call: along an axis, and of a whole array."""
        shapes = [leaf.shape for leaf in self.subject.leaves]
        each = {n for shape in shapes for n in (*shape, int(np.prod(shape, dtype=int)))}
        return frozenset(n for n in each if n > 1)

    @functools.cached_property
    def settings(self) -> dict[str, float]:
        """The plain numbers among the arguments that are not differentiated, but those that change nothing as a factor."""
        floats = {n: v for n, v in self.subject.defaults.items() if isinstance(v, float)}
        held = self.subject.signature.held(floats)  # whole numbers by default are counts and axes
        numbers = {name: n for name, v in held.items() if (n := _plain(v)) is not None}
        return {name: v for name, v in numbers.items() if np.isfinite(v) and abs(v) not in (0, 1)}

    def setting(self, name: str) -> float | None:
        """The number that an argument is which is not differentiated; none if it is something else."""
        return _plain(self.subject.signature.held(self.subject.defaults).get(name))

    def components(self, what: str) -> list[tuple[tuple[int, ...], Array]]:
        """For each output or argument: its shape, and which of its elements are judged."""
        values = what == VALUES
        shapes = list(self.subject.outputs) if values else [v.shape for v in self.subject.leaves]
        sample = self.subject.sample
        if sample is None:
            return [(shape, np.arange(int(np.prod(shape, dtype=int)))) for shape in shapes]
        return list(zip(shapes, sample.outputs if values else sample.leaves, strict=True))

    @functools.cached_property
    def beyond(self) -> Array:
        """Rows outside of what models meet."""
        return read_only(np.array([recipe == BEYOND for recipe in self.recipes], bool))

    @functools.cached_property
    def at_base(self) -> Array:
        """Rows at the base cotangent, one for each point."""
        base = np.array([p.cotangent == BASE for p in self.probes], bool)
        return read_only(np.flatnonzero(base))

    @functools.cached_property
    def base_rows(self) -> Array:
        """Rows at the base cotangent, within reach."""
        return read_only(self.at_base[~self.beyond[self.at_base]])


@dataclass(frozen=True, eq=False)
class Measurements(Rows):
    """Floats and truth at some rows of one subject; nothing of it is ever overwritten."""

    floats: Mapping[str, Floats]
    reference: Reference
    sources: Sources
    rule: Truth | None
    spread: list[Array]  # the values that the whole subject was tried at
    endless: tuple[int, ...] = ()  # rows at which an iteration did not end in floats
    run_out: tuple[int, ...] = ()  # rows at which a loop came to its last trip without

    def __post_init__(self) -> None:
        for truth in filter(None, (self.truth, self.rule)):
            for array in truth.arrays():
                read_only(array)
        for run in self.floats.values():
            for array in (*run.value, *run.rule_value, *(run.custom or ()), *(run.auto or ())):
                read_only(array)

    @property
    def truth(self) -> Truth:
        return self.reference.truth

    @property
    def mode(self) -> str:
        """The float program that counts: the compiled one, or the only one."""
        return next(iter(self.floats))

    @property
    def ruled(self) -> bool:
        """Is there a custom rule, of its own or among the functions that it calls?"""
        return self.subject.has_rule or self.sources.rule is not None

    @property
    def judged(self) -> str:
        """Whose gradient is judged: the rule's, or for a plain function autodiff's."""
        return "auto" if next(iter(self.floats.values())).custom is None else "custom"

    @property
    def evidence(self) -> Evidence:
        """What truth and formula rest on: the weakest of all rows."""
        strongest = self.sources.evidence
        estimated = self.truth.estimated or (self.rule is not None and self.rule.estimated)
        weaker = [Evidence.MULTIPRECISION] if estimated else []
        weaker += [Evidence.FLOAT64] if self.truth.by_limit else []
        return max([strongest, *weaker], key=lambda e: e.rank)

    @functools.cached_property
    def dear(self) -> bool:
        """Does one row cost so much that only what a verdict needs is asked for?

        So it is where the truth comes from many calls, one after the other.
        """
        if self.sources.primal.dear:
            return True
        traces = self.subject.traces()
        return any(by_flint(p) > DEAR for p in (traces.primal, traces.rule) if p is not None)


def _plain(value: object) -> float | None:
    """A plain number; none of what is a flag, or an array."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
