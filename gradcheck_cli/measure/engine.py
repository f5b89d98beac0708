"""Probes to measurements: few compiled calls, one walk for each program, everything in rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcheck_cli.frameworks.seam import Floats, Subject
from gradcheck_cli.inputs.cotangents import BASE, cotangent
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.inputs.lattice import BEYOND, Points
from gradcheck_cli.measure.accuracy import VALUES, Reference, as_floats, columns, goal_bits
from gradcheck_cli.measure.casts import as_if_in, narrowest
from gradcheck_cli.measure.integral import DIFFERENCES_SAY, Testimony, third_witness
from gradcheck_cli.measure.ladder import Sources, sources
from gradcheck_cli.measure.states import KINK, OUTSIDE, POLE, UNDECIDED
from gradcheck_cli.measure.truth import Ask, Truth
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.precision import DEAR, enclose
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.words import Evidence

Array = np.ndarray[Any, Any]


_FEW = 2
_QUITE_ANOTHER = 0.5
# With these, the derivative of the program may be another than the function's.
_NOT_BY_THE_CHAIN_RULE = frozenset(
    {"while", "scan", "cond", "select_n", "floor", "ceil", "round", "sign", "convert_element_type",
     "gather", "sort", "argmax", "argmin", "custom_linear_solve"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Probe:
    """What a law asks for: a point by its number, a cotangent by its name."""

    point: int
    cotangent: str


@dataclass(slots=True)
class Measurements:
    """Everything known about some rows of one subject."""

    subject: Subject
    fmt: Format
    seed: int
    probes: list[Probe]
    points: list[Array]
    cotangents: list[Array]
    recipes: list[str]
    floats: Mapping[str, Floats]
    reference: Reference
    sources: Sources
    rule: Truth | None
    spread: list[Array] = field(
        default_factory=list
    )  # the values that the whole subject was tried at
    cache: dict[object, Any] = field(default_factory=dict)
    _rows: dict[Probe, int] = field(default_factory=dict)

    @property
    def truth(self) -> Truth:
        return self.reference.truth

    @property
    def count(self) -> int:
        return len(self.probes)

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

    @property
    def dear(self) -> bool:
        """Does one row cost so much that only what a verdict needs is asked for?

        So it is where the truth comes from many calls, one after the other.
        """
        if self.sources.primal.evidence is Evidence.FINITE_DIFFERENCE:
            return True
        traces = self.subject.traces()
        return any(by_flint(p) > DEAR for p in (traces.primal, traces.rule) if p is not None)

    def row(self, probe: Probe) -> int | None:
        if not self._rows:
            self._rows = {p: i for i, p in enumerate(self.probes)}
        return self._rows.get(probe)

    def components(self, what: str) -> list[tuple[tuple[int, ...], Array]]:
        """For each output or argument: its shape, and which of its elements are judged."""
        values = what == VALUES
        shapes = list(self.subject.outputs) if values else [v.shape for v in self.subject.leaves]
        sample = self.subject.sample
        if sample is None:
            return [(shape, np.arange(int(np.prod(shape, dtype=int)))) for shape in shapes]
        return list(zip(shapes, sample.outputs if values else sample.leaves, strict=True))

    @property
    def beyond(self) -> Array:
        """Rows outside of what models meet."""
        return np.array([recipe == BEYOND for recipe in self.recipes], bool)

    def base_rows(self) -> Array:
        """Rows at the base cotangent, within reach."""
        base = np.array([p.cotangent == BASE for p in self.probes], bool)
        return np.flatnonzero(base & ~self.beyond)

    def widened(self, rows: Array) -> tuple[Array, Array] | None:
        """Primal's and rule's gradients with every rounded constant a ball (SEMANTICS B2).

        Where rows are dear, the last of a few stands for the rest.
        """
        traces = self.subject.traces()
        if traces.rule is None or traces.primal is None or self.sources.reason:
            return None
        few = rows[:_FEW] if self.dear else rows
        args = [a[few] for a in (*self.points, *self.cotangents)]
        goal = self.reference.goal
        outputs = len(self.cotangents)
        both = []
        for program in (traces.primal, traces.rule):
            enclosed = enclose(program, args, goal=goal, widen=True)
            found = np.concatenate([o.reshape(len(few), -1) for o in enclosed.outs[outputs:]], 1)
            both.append(found[np.minimum(np.arange(len(rows)), len(few) - 1)])
        return both[0], both[1]

    def third_witness(self, row: int) -> Testimony | None:
        if self.sources.rule is None:
            return None
        if self.sources.primal.evidence is Evidence.FINITE_DIFFERENCE:
            return DIFFERENCES_SAY  # they look at the function already, not at its program
        primal = self.subject.traces().primal
        if self.dear and primal is not None and not primal.primitives() & _NOT_BY_THE_CHAIN_RULE:
            return DIFFERENCES_SAY  # no loop, no step: autodiff is the derivative
        return third_witness(
            self.sources.primal,
            self.sources.rule,
            [p[row] for p in self.points],
            [c[row] for c in self.cotangents],
            self.fmt.eps,
            self.seed,
        )


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
    fmt = format_of(subject.dtype)
    probes = list(dict.fromkeys(probes))
    index = np.array([p.point for p in probes], int)
    rows = [leaf[index] for leaf in points.leaves]
    named = {name: cotangent(name, subject.outputs) for name in {p.cotangent for p in probes}}
    cotangents = [
        np.stack([named[p.cotangent][k] for p in probes]) for k in range(len(subject.outputs))
    ]
    recipes = [points.recipes[i] for i in index]
    floats = subject.run(rows, cotangents)
    ran()  # what is slow or dies from here on is ours, not the user's

    def on(rungs: Sources) -> Measurements:
        return measure_rows(
            subject, fmt, rows, cotangents, seed, probes, recipes, rungs, floats=floats
        )

    try:
        return on(rungs)
    except NoRealMeaning:
        return on(sources(subject, certified=False))


def measure_rows(
    subject: Subject,
    fmt: Format,
    rows: list[Array],
    cotangents: list[Array],
    seed: int,
    probes: list[Probe],
    recipes: list[str],
    rungs: Sources,
    kinks: bool = True,
    ties: bool = True,
    floats: Mapping[str, Floats] | None = None,
) -> Measurements:
    """The same for rows that are already numbers; without `kinks` nothing is nudged."""
    floats = floats or subject.run(rows, cotangents)
    goal = goal_bits(fmt)
    base = np.array([i for i, p in enumerate(probes) if p.cotangent == BASE], int)
    truth = rungs.primal.evaluate(rows, cotangents, Ask(goal, ties, kinks, base))
    rule = None
    if rungs.rule is not None:
        rule = rungs.rule.evaluate(rows, cotangents, Ask(goal, False, kinks, base))
    for found in filter(None, (truth, rule)):
        _share_poles(found, probes, fmt)
    for state in (*truth.value_states, *truth.gradient_states):
        for run in floats.values():
            if run.refused is not None:
                state[run.refused] = OUTSIDE
    if rungs.primal.evidence.rank >= Evidence.FLOAT64.rank:
        _leave_open(truth, rule, next(iter(floats.values())).value)
    if rule is not None:
        _share_domain(truth, rule)
    primal = subject.traces().primal
    narrow = None if primal is None else narrowest(primal, fmt)
    judged_in = fmt if narrow is None else as_if_in(fmt, narrow)
    reference = Reference(rungs.primal, judged_in, rows, cotangents, truth, seed)
    return Measurements(
        subject,
        fmt,
        seed,
        probes,
        rows,
        cotangents,
        recipes,
        floats,
        reference,
        rungs,
        rule,
        [r[[recipe != BEYOND for recipe in recipes]] for r in rows],
    )


def _leave_open(truth: Truth, rule: Truth | None, values: Sequence[Array]) -> None:
    """Where the same function is quite another number in wider floats, neither is its value.

    An iteration that does not converge, say: such a point is none that the function is for. It has
    no derivative there that differences agree on, either.
    """
    count = len(values[0])
    wide, got = as_floats(columns(truth.values, count)), columns(values, count)
    with np.errstate(invalid="ignore"):
        apart = np.abs(wide - got) > _QUITE_ANOTHER * np.maximum(np.abs(wide), np.abs(got))
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
    rows = [np.asarray(p, np.float64)[None] for p in point]
    cotangents = [c[row : row + 1] for c in m.cotangents]
    probe = Probe(0, m.probes[row].cotangent)
    found = measure_rows(
        m.subject, m.fmt, rows, cotangents, m.seed, [probe], ["shrunk"], m.sources, kinks=False
    )
    found.spread = m.spread
    return found


def line(m: Measurements, row: int, leaf: int, element: int, values: Array) -> Measurements:
    """The same probe with one component of one argument moved through values."""
    count = len(values)
    rows = [np.repeat(p[row][None], count, axis=0) for p in m.points]
    flat = rows[leaf].reshape(count, -1)
    flat[:, element] = values
    rows[leaf] = flat.reshape(rows[leaf].shape)
    cotangents = [np.repeat(c[row][None], count, axis=0) for c in m.cotangents]
    probes = [Probe(i, m.probes[row].cotangent) for i in range(count)]
    return measure_rows(
        m.subject,
        m.fmt,
        rows,
        cotangents,
        m.seed,
        probes,
        ["line"] * count,
        m.sources,
        kinks=False,
        ties=False,
    )
