"""Probes to measurements: few compiled calls, one walk for each program, everything in rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import QUITE_ANOTHER
from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.inputs.cotangents import BASE, cotangent
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.inputs.lattice import BEYOND, Points
from gradcheck_cli.measure.accuracy import VALUES, Reference, as_floats, columns, goal_bits
from gradcheck_cli.measure.ball_truth import Ask, Truth
from gradcheck_cli.measure.casts import as_if_in, narrowest
from gradcheck_cli.measure.sources import Sources, sources
from gradcheck_cli.measure.states import KINK, OUTSIDE, POLE, UNDECIDED
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.enclose import DEAR
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.results import Floats

Array = np.ndarray[Any, Any]


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
    def base_rows(self) -> Array:
        """Rows at the base cotangent, within reach."""
        base = np.array([p.cotangent == BASE for p in self.probes], bool)
        return read_only(np.flatnonzero(base & ~self.beyond))


@dataclass(frozen=True, eq=False)
class Measurements(Rows):
    """Floats and truth at some rows of one subject; nothing of it is ever overwritten."""

    floats: Mapping[str, Floats]
    reference: Reference
    sources: Sources
    rule: Truth | None
    spread: list[Array]  # the values that the whole subject was tried at

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
        found = self.sources.evidence
        rests = self.truth.estimated or (self.rule is not None and self.rule.estimated)
        return max(found, Evidence.MULTIPRECISION, key=lambda e: e.rank) if rests else found

    @functools.cached_property
    def dear(self) -> bool:
        """Does one row cost so much that only what a verdict needs is asked for?

        So it is where the truth comes from many calls, one after the other.
        """
        if self.sources.primal.dear:
            return True
        traces = self.subject.traces()
        return any(by_flint(p) > DEAR for p in (traces.primal, traces.rule) if p is not None)


def measure(
    subject: Subject,
    points: Points,
    probes: Sequence[Probe],
    rungs: Sources,
    *,
    seed: int,
    ran: Callable[[], None] = lambda: None,
) -> Measurements:
    """Run and walk all probes of all laws at once, on the strongest rung that holds for all of them."""
    probes = list(dict.fromkeys(probes))
    index = np.array([p.point for p in probes], int)
    named = {name: cotangent(name, subject.outputs) for name in {p.cotangent for p in probes}}
    cotangents = [
        np.stack([named[p.cotangent][k] for p in probes]) for k in range(len(subject.outputs))
    ]
    rows = Rows(
        subject, format_of(subject.dtype), seed, probes, [leaf[index] for leaf in points.leaves],
        cotangents, [points.recipes[i] for i in index],
    )  # fmt: skip
    floats = subject.run(rows.points, rows.cotangents)
    ran()  # what is slow or dies from here on is ours, not the user's
    try:
        return measure_rows(rows, rungs, floats=floats)
    except NoRealMeaning:
        return measure_rows(rows, sources(subject, certified=False), floats=floats)


def measure_rows(
    rows: Rows,
    rungs: Sources,
    *,
    kinks: bool = True,
    ties: bool = True,
    floats: Mapping[str, Floats] | None = None,
) -> Measurements:
    """Floats (unless they are there already) and truth at all rows; without `kinks` nothing is nudged."""
    points, cotangents, fmt = rows.points, rows.cotangents, rows.fmt
    floats = floats or rows.subject.run(points, cotangents)
    goal = goal_bits(fmt)
    base = np.array([i for i, p in enumerate(rows.probes) if p.cotangent == BASE], int)
    truth = rungs.primal.evaluate(points, cotangents, Ask(goal, ties, kinks, base))
    rule = None
    if rungs.rule is not None:
        rule = rungs.rule.evaluate(points, cotangents, Ask(goal, False, kinks, base))
    for found in filter(None, (truth, rule)):
        _share_poles(found, rows.probes, fmt)
    for state in (*truth.value_states, *truth.gradient_states):
        for run in floats.values():
            if run.refused is not None:
                state[run.refused] = OUTSIDE
    if not rungs.primal.over_reals:
        _leave_open(truth, rule, next(iter(floats.values())).value)
    if rule is not None:
        _share_domain(truth, rule)
    primal = rows.subject.traces().primal
    narrow = None if primal is None else narrowest(primal, fmt)
    judged_in = fmt if narrow is None else as_if_in(fmt, narrow)
    reference = Reference(rungs.primal, judged_in, points, cotangents, truth, rows.seed)
    spread = [p[~rows.beyond] for p in points]
    return Measurements(
        rows.subject, fmt, rows.seed, rows.probes, points, cotangents, rows.recipes,
        floats, reference, rungs, rule, spread,
    )  # fmt: skip


def _leave_open(truth: Truth, rule: Truth | None, values: Sequence[Array]) -> None:
    """Where the same function is quite another number in wider floats, neither is its value.

    An iteration that does not converge, say: such a point is none that the function is for. It has
    no derivative there that differences agree on, either.
    """
    count = len(values[0])
    wide, got = as_floats(columns(truth.values, count)), columns(values, count)
    with np.errstate(invalid="ignore"):
        apart = np.abs(wide - got) > QUITE_ANOTHER.value * np.maximum(np.abs(wide), np.abs(got))
    lost = (apart & np.isfinite(wide) & np.isfinite(got)).any(axis=1)
    unsettled = np.isin(columns(truth.gradient_states, count), (KINK, UNDECIDED)).any(axis=1)
    lost |= unsettled & ~np.isfinite(got).all(axis=1)
    lost |= (columns(truth.value_states, count) == UNDECIDED).any(axis=1)
    for found in filter(None, (truth, rule)):  # a rule there is that of no value
        for state in (*found.value_states, *found.gradient_states):
            state[lost] = UNDECIDED


def _share_domain(truth: Truth, rule: Truth) -> None:
    """Outside the primal's domain the rule may be whatever it likes."""
    pairs = zip(
        (*truth.value_states, *truth.gradient_states),
        (*rule.value_states, *rule.gradient_states),
        strict=True,
    )
    for ours, theirs in pairs:
        theirs[ours == OUTSIDE] = OUTSIDE


def _share_poles(truth: Truth, probes: Sequence[Probe], fmt: Format) -> None:
    """A pole or an overflow of the gradient is one for every cotangent: 0·inf is no fault there."""
    places: dict[int, list[int]] = {}
    for row, probe in enumerate(probes):
        places.setdefault(probe.point, []).append(row)
    for state, balls in zip(truth.gradient_states, truth.gradients, strict=True):
        flat = state.reshape(len(probes), -1)
        over = np.abs(as_floats(balls)).reshape(len(probes), -1) > fmt.max
        for rows in places.values():
            if len(rows) > 1:
                lost = ((flat[rows] == POLE) | over[rows]).any(axis=0)
                part = np.ix_(np.array(rows), np.flatnonzero(lost))
                flat[part] = np.where(over[part], flat[part], POLE)


def moved(m: Measurements, row: int, point: Sequence[Array]) -> Measurements:
    """One probe with other inputs and the same cotangent."""
    points = [np.asarray(p, np.float64)[None] for p in point]
    cotangents = [c[row : row + 1] for c in m.cotangents]
    probe = Probe(0, m.probes[row].cotangent)
    rows = Rows(m.subject, m.fmt, m.seed, [probe], points, cotangents, ["shrunk"])
    return replace(measure_rows(rows, m.sources, kinks=False), spread=m.spread)


def line(m: Measurements, row: int, leaf: int, element: int, values: Array) -> Measurements:
    """The probe of a row with one component of one argument moved through values."""
    count = len(values)
    points = [np.repeat(p[row][None], count, axis=0) for p in m.points]
    flat = points[leaf].reshape(count, -1)
    flat[:, element] = values
    points[leaf] = flat.reshape(points[leaf].shape)
    cotangents = [np.repeat(c[row][None], count, axis=0) for c in m.cotangents]
    probes = [Probe(i, m.probes[row].cotangent) for i in range(count)]
    rows = Rows(m.subject, m.fmt, m.seed, probes, points, cotangents, ["line"] * count)
    return measure_rows(rows, m.sources, kinks=False, ties=False)
