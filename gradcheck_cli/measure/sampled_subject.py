"""A large gradient is judged in part: every component is looked at in bulk, a sample in depth.

Cost is known before it is paid. Where walking whole programs over the reals would cost too
much, float64 balls look at all components first; those that look worst, and some at random,
are then judged like any small gradient, on programs restricted to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gradcheck_cli.contract.limits import (
    PART_BALLS,
    PART_EACH,
    PART_FLOATS,
    PART_STEPS,
    PART_SUSPECT,
)
from gradcheck_cli.inputs.cotangents import BASE, cotangent
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.float64.certify import certify
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.restrict import restrict
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.protocol import LibraryFunction, Shaped, Subject, Traced
from gradcheck_cli.subject.refusals import RuleError
from gradcheck_cli.subject.results import (
    VALUE,
    Array,
    Floats,
    Kernel,
    Limits,
    Pullback,
    Sample,
    Traces,
)

_PROBES = 4  # that laws ask for at each point, about
_FEWEST_POINTS = 8
_LOOKED_AT = 8  # points at which all components are looked at


@dataclass(slots=True)
class Part:
    """A subject of which only a sample of the components is seen."""

    whole: Subject
    sample: Sample
    signature: Signature = field(init=False)
    dtype: str = field(init=False)
    outputs: Sequence[tuple[int, ...]] = field(init=False)
    leaves: Sequence[Leaf] = field(init=False)
    has_rule: bool = field(init=False)
    modes: Sequence[str] = field(init=False)
    _traces: Traces | None = None

    def __post_init__(self) -> None:
        whole = self.whole
        self.signature, self.dtype, self.has_rule = whole.signature, whole.dtype, whole.has_rule
        self.outputs, self.leaves, self.modes = whole.outputs, whole.leaves, whole.modes

    # -- over the reals: programs of the sample ------------------------------------------

    @property
    def differentiable(self) -> bool:
        return self.whole.differentiable

    @property
    def defaults(self) -> Mapping[str, object]:
        return self.whole.defaults

    def traces(self) -> Traces:
        if self._traces is None:
            whole = self.whole.traces()
            few = self._restricted
            self._traces = Traces(
                few(whole.primal),
                few(whole.rule),
                few(whole.trusting),
                whole.reason,
                whole.inner,
            )
        return self._traces

    def distrust(self, reason: str, *, primal: bool) -> None:
        self.whole.distrust(reason, primal=primal)
        self._traces = None

    def reads_beyond(self) -> str:
        return self.whole.reads_beyond()

    def limits(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Limits | None:
        whole = self.whole.limits(points, cotangents)
        return None if whole is None else whole.sampled(self.sample)

    def limits_of_series(
        self, points: Sequence[Array], cotangents: Sequence[Array]
    ) -> Limits | None:
        whole = self.whole.limits_of_series(points, cotangents)
        return None if whole is None else whole.sampled(self.sample)

    def rule_program(self) -> Program | None:
        return self._restricted(self.whole.rule_program())

    def _restricted(self, program: Program | None) -> Program | None:
        return program and restrict(program, (*self.sample.outputs, *self.sample.leaves))

    # -- in floats: the whole runs, the sample is shown ----------------------------------

    def run(
        self,
        points: Sequence[Array],
        cotangents: Sequence[Array],
        modes: Sequence[str] | None = None,
    ) -> Mapping[str, Floats]:
        runs = self.whole.run(points, cotangents, modes)
        return {mode: self._picked(floats) for mode, floats in runs.items()}

    @property
    def stays_on_cpu(self) -> str:
        return self.whole.stays_on_cpu

    @property
    def kernels(self) -> Sequence[Kernel]:
        return self.whole.kernels

    def run_scalars(self, xs: Array, cotangents: Sequence[float]) -> list[Array]:
        return self.whole.run_scalars(xs, cotangents)

    def run_out(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        return self.whole.run_out(points, cotangents)

    def primal_values(self, points: Sequence[Array]) -> list[Array]:
        return _rows(self.whole.primal_values(points), self.sample.outputs)

    def rule_gradients_unbatched(
        self, point: Sequence[Array], cotangent: Sequence[Array]
    ) -> list[Array]:
        return self.whole.rule_gradients_unbatched(point, cotangent)

    def rule_pullback(self, point: Sequence[Array]) -> Pullback | None:
        return self.whole.rule_pullback(point)

    def _picked(self, floats: Floats) -> Floats:
        outputs, leaves = self.sample.outputs, self.sample.leaves
        return replace(
            floats,
            value=_rows(floats.value, outputs),
            rule_value=_rows(floats.rule_value, outputs),
            custom=floats.custom and _rows(floats.custom, leaves),
            auto=floats.auto and _rows(floats.auto, leaves),
        )

    def run_row(
        self, point: Sequence[Array], cotangent: Sequence[Array], mode: str, who: str
    ) -> list[Array]:
        outs = self.whole.run_row(point, cotangent, mode, who)
        picks = self.sample.outputs if who == VALUE else self.sample.leaves
        return [out.reshape(-1)[pick] for out, pick in zip(outs, picks, strict=True)]

    # -- variants: what takes all components is not asked of a sample ---------------------

    def other_calls(self) -> Sequence[OtherCall]:
        return ()

    def library_functions(self) -> Iterator[LibraryFunction]:
        return iter(())

    def refusal(self, dtype: str) -> RuleError | None:
        return self.whole.refusal(dtype)

    def in_float64(self, *, bare: bool = True) -> Subject | None:
        wide = self.whole.in_float64(bare=bare)
        return wide and Part(wide, self.sample)

    def with_new_draws(
        self, seeds: int, point: Sequence[Array], cotangent: Sequence[Array], ends: Sequence[Array]
    ) -> tuple[list[Array], list[Array]] | None:
        return self.whole.with_new_draws(seeds, point, cotangent, ends)


def _rows(arrays: Sequence[Array], picks: Sequence[Array]) -> list[Array]:
    return [a.reshape(len(a), -1)[:, pick] for a, pick in zip(arrays, picks, strict=True)]


def components(subject: Shaped) -> int:
    """Numbers in one row of results."""
    return sum(int(np.prod(s, dtype=int)) for s in (*subject.outputs, *(leaf.shape for leaf in subject.leaves)))  # fmt: skip


def steps(subject: Traced) -> int:
    """Steps of flint for one row of the dearer program; one where there is none."""
    return max(1, *map(by_flint, _programs(subject)), 1)


def affordable_points(subject: Traced, wanted: int) -> int:
    """So many points that neither the floats nor the reals of all probes go beyond all bounds."""
    floats = PART_FLOATS.value // max(1, components(subject))
    most = min(floats, PART_STEPS.value // steps(subject)) // _PROBES
    return wanted if most >= wanted else max(_FEWEST_POINTS, most)


def too_large(subject: Traced, rows: int) -> bool:
    """Would all components at so many rows cost more than is worth it?"""
    traces = subject.traces()
    shapes = [*subject.outputs, *(leaf.shape for leaf in subject.leaves)]
    if any([a.shape for a in p.out_avals] != shapes for p in (traces.primal, traces.rule) if p):
        return False  # of the wrong shape: that will be the finding
    steps = sum(map(by_flint, _programs(subject)))
    return rows * steps > PART_STEPS.value or rows * components(subject) > PART_BALLS.value


def _programs(subject: Traced) -> list[Program]:
    traces = subject.traces()
    return [p for p in (traces.primal, traces.rule) if p is not None]


def part_of(subject: Subject, points: Sequence[Array], seed: int) -> tuple[Part, str]:
    """The part that is judged, and how its components were chosen."""
    rows = [p[:_LOOKED_AT] for p in points]
    count = len(rows[0])
    weights = [np.stack([w] * count) for w in cotangent(BASE, subject.outputs)]
    try:
        suspicion = _suspicion(subject, rows, weights)
        how = f"all were looked at in float64 balls at {count} points; those that look worst and some at random"
    except NoRealMeaning:
        suspicion, how = None, "some at random"
    rng = np.random.default_rng(seed)
    shapes = [*subject.outputs, *(leaf.shape for leaf in subject.leaves)]
    picks = []
    for k, shape in enumerate(shapes):
        size = int(np.prod(shape, dtype=int))
        chosen = rng.permutation(size)[: PART_EACH.value]
        if suspicion is not None:
            chosen = np.concatenate(
                [np.argsort(-suspicion[k], kind="stable")[: PART_EACH.value], chosen]
            )
        picks.append(np.unique(chosen))
    outputs = len(subject.outputs)
    return Part(subject, Sample(tuple(picks[:outputs]), tuple(picks[outputs:]))), how


def _suspicion(subject: Subject, rows: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
    """For each component the worst distance between float and truth, beside the largest of its kind."""
    program = subject.traces().primal
    if program is None:
        raise NoRealMeaning("autodiff")
    truth = certify(program, [*rows, *weights])
    mode = subject.modes[0]
    floats = subject.run(rows, weights, (mode,))[mode]
    gradients = floats.auto if floats.custom is None else floats.custom
    got = [*floats.rule_value, *(gradients or [])]
    return [_distance(*same) for same in zip(got, truth.mids, truth.rads, strict=True)]


def _distance(got: Array, mid: Array, rad: Array) -> Array:
    count = len(got)
    got, mid, rad = (a.reshape(count, -1) for a in (got, mid, rad))
    with np.errstate(all="ignore"):
        size = np.where(np.isfinite(mid), np.abs(mid), 0.0).max(axis=1, initial=0.0)[:, None]
        gap = np.maximum(np.abs(got - mid) - rad, 0.0) / np.where(size > 0, size, 1.0)
        # Wrong in itself, if not beside others.
        own = np.abs(got - mid) > rad + PART_SUSPECT.value * np.abs(mid)
    decided = np.isfinite(mid) & np.isfinite(rad)
    gap = np.where(decided, np.where(np.isfinite(got), gap, np.inf), 0.0)
    # What is wrong only in itself ranks below all that is wrong beside the largest, above the rest.
    bonus = np.where(own & (gap > 0), PART_SUSPECT.value / 16, 0.0)
    return np.asarray((gap + bonus).max(axis=0, initial=0.0))
