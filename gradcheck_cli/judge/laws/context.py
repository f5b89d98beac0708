"""A call made in another way gives the gradient of the plain call, and changes no argument.

Which other calls there are is the framework's business: memory layouts, subsets of arguments,
transformations. Each is held to the plain call with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import ROUNDING_ULP, half_of_the_digits
from gradcheck_cli.contract.report import Outcome
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import NO_RULE, Judgement, Reason, judged
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.subject.other_calls import OtherCall, WentWrong

Array = np.ndarray[Any, Any]

_POINTS, _OF_KERNELS = 2, 1  # a kernel is interpreted program by program in each call


@dataclass(frozen=True, slots=True)
class Context:
    name: str = "context"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return []

    def applicable(self, m: Measurements) -> Reason | None:
        if not m.subject.has_rule:
            return NO_RULE
        if not m.subject.other_calls():
            return Reason(Outcome.NOT_APPLICABLE, None)
        if m.in_part:
            return Reason(Outcome.NOT_COVERED, "only some of its components are judged")
        if not _plain_rows(m):
            return Reason(Outcome.NOT_COVERED, "no point that was tried is regular")
        return None

    def judge(self, m: Measurements) -> Judgement:
        rows = _plain_rows(m)
        failures: dict[tuple[RuleName, str], Failure] = {}
        for call in m.subject.other_calls():
            deviation = next(filter(None, (_deviation(m, call, row) for row in rows)), None)
            if deviation is not None:  # an error that several calls raise is one failure
                key = (deviation.failure.rule, deviation.symptom)
                failures.setdefault(key, deviation.failure)
        return judged(self.name, len(rows), _gravest_impurity(list(failures.values())))


def _gravest_impurity(failures: Sequence[Failure]) -> Sequence[Failure]:
    """A rule that is not pure explains other failures, and its gravest effect the lesser ones."""
    impure = [f for f in failures if f.rule == RuleName.IMPURE_RULE]
    gravest = max((f.severity.rank for f in impure), default=None)
    return [f for f in impure if f.severity.rank == gravest] or failures


@derived
def _plain_rows(m: Measurements) -> list[int]:
    """Ordinary points where everything is regular."""
    states = m.reference.states(GRADIENTS)
    inside = [r for r in m.base_rows.tolist() if (states[r] == REGULAR).all()]
    sizes = [max(float(np.abs(p[r]).max(initial=0)) for p in m.points) for r in inside]
    plain = sorted(
        zip(inside, sizes, strict=True), key=lambda pair: (not 0 < pair[1] <= 10, pair[0])
    )
    return [row for row, _ in plain[: _OF_KERNELS if m.subject.kernels else _POINTS]]


@dataclass(frozen=True, slots=True)
class _Deviation:
    """A failure of one call, and the symptom that other calls may share."""

    failure: Failure
    symptom: str


def _deviation(m: Measurements, call: OtherCall, row: int) -> _Deviation | None:
    """What goes wrong in this call at this row, if anything."""
    try:
        pair = call.run([p[row] for p in m.points], [c[row] for c in m.cotangents])
    except WentWrong as wrong:
        broken = replace(call, rule=wrong.rule, severity=wrong.severity, beside_formula=False)
        return _Deviation(_failure(broken, row, wrong.message), wrong.error)
    worst = None if pair is None else _worst(*pair, m.fmt.eps, _noise(m, row))
    if worst is None:
        return None
    message = call.says.format(call.name, m.fmt.show(worst.got), m.fmt.show(worst.expected))
    return _Deviation(_failure(call, row, message, worst.number), call.name)


@dataclass(frozen=True, slots=True)
class _Component:
    """One component of all gradients, in the other call and in the plain one."""

    number: int
    got: float
    expected: float


def _noise(m: Measurements, row: int) -> Array:
    """How large the rounding is of the terms that each gradient of 0 at this row is added up of.

    Some of these may be as large as the largest gradient there: a sum of deviations from their mean.
    """
    terms = m.reference.terms(np.array([row]))[0]
    gradients = np.abs(m.reference.middle(GRADIENTS)[row])
    largest = gradients[np.isfinite(gradients)].max(initial=0)
    terms = np.where(terms > 0, np.maximum(terms, largest), 0)
    return np.asarray(ROUNDING_ULP.value * m.fmt.eps * terms)


def _worst(
    got: Sequence[Array | None], expected: Sequence[Array], eps: float, noise: Array
) -> _Component | None:
    """The worst component, if it differs by more than half of the digits beside the largest, and by more than noise."""
    start, worst, largest = 0, None, half_of_the_digits(eps)
    for ours, theirs in zip(got, expected, strict=True):
        if ours is not None and theirs.size:
            own = noise[start : start + theirs.size]
            at, gap = _widest(ours.reshape(-1), theirs.reshape(-1), own)
            if gap > largest:
                largest = gap
                worst = _Component(start + at, float(ours.flat[at]), float(theirs.flat[at]))
        start += theirs.size
    return worst


def _widest(ours: Array, theirs: Array, noise: Array) -> tuple[int, float]:
    """Where two flat arrays are furthest apart, and how far beside the largest number expected."""
    with np.errstate(invalid="ignore"):  # inf on both sides is no difference
        gap = np.abs(ours - theirs)
        gap = np.where(gap <= noise, 0.0, gap)
    gap = np.where(np.isnan(ours) & ~np.isnan(theirs), math.inf, gap)
    if np.isnan(gap).all():
        return 0, math.nan
    at = int(np.nanargmax(gap))
    size = float(np.abs(theirs).max())
    return at, float(gap[at] / size if size else gap[at])


def _failure(call: OtherCall, row: int, message: str, component: int = 0) -> Failure:
    """A failure whose ground is the call: the text of an error has shapes and numbers."""
    kind = Kind.FORWARD_MODE if call.beside_formula else Kind.CONTEXT
    ground = Ground(kind, f"{call.rule} {call.name}")
    return Failure(
        call.rule, call.severity, row, GRADIENTS, component, ground, message,
        everywhere=True, help=call.help,
    )  # fmt: skip


CONTEXT = Context()
