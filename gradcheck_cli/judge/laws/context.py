"""The same call in another way gives the same gradient, and leaves what it was given as it was.

Which ways there are is the framework's business: memory layouts, subsets of arguments,
transformations. Each is held to the plain call with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import half_of_the_digits
from gradcheck_cli.contract.report import Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import NO_RULE, Judgement, Reason, judged
from gradcheck_cli.measure.accuracy import GRADIENTS
from gradcheck_cli.measure.derived import derived
from gradcheck_cli.measure.engine import Measurements, Probe
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.subject.other_calls import OtherCall, WentWrong

Array = np.ndarray[Any, Any]

_POINTS = 2


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
        failures: dict[tuple[str, str], Failure] = {}
        for way in m.subject.other_calls():
            slip = next(filter(None, (_slip(m, way, row) for row in rows)), None)
            if slip is not None:  # an error that several ways raise is one failure
                failures.setdefault((slip.failure.rule, slip.symptom), slip.failure)
        return judged(self.name, len(rows), _telling(list(failures.values())))


def _telling(failures: Sequence[Failure]) -> Sequence[Failure]:
    """A rule that is not pure explains the others, and its gravest effect the lesser ones."""
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
    return [row for row, _ in plain[:_POINTS]]


@dataclass(frozen=True, slots=True)
class _Deviation:
    """A failure in one way, and the symptom that other ways may share."""

    failure: Failure
    symptom: str


def _slip(m: Measurements, way: OtherCall, row: int) -> _Deviation | None:
    """What goes wrong in this way at this row, if anything."""
    try:
        found = way.run([p[row] for p in m.points], [c[row] for c in m.cotangents])
    except WentWrong as slip:
        failure = _failure(row, 0, slip.rule, slip.severity, slip.message, way)
        return _Deviation(failure, slip.message.removeprefix(f"{way.name}, "))
    worst = None if found is None else _apart(*found, m.fmt.eps)
    if worst is None:
        return None
    component, ours, theirs = worst
    message = way.says.format(way.name, m.fmt.show(ours), m.fmt.show(theirs))
    failure = _failure(row, component, way.rule, way.severity, message, way)
    return _Deviation(failure, way.name)


def _apart(
    got: Sequence[Array | None], expected: Sequence[Array], eps: float
) -> tuple[int, float, float] | None:
    """The worst component, if it differs by more than half of the digits beside the largest."""
    start, worst = 0, None
    largest = 0.0
    for ours, theirs in zip(got, expected, strict=True):
        if ours is not None and theirs.size:
            size = float(np.abs(theirs).max())
            with np.errstate(invalid="ignore"):  # inf on both sides is no difference
                gap = np.abs(ours - theirs).reshape(-1)
            gap = np.where(
                np.isnan(ours.reshape(-1)) & ~np.isnan(theirs.reshape(-1)), math.inf, gap
            )
            at = int(np.nanargmax(gap)) if not np.isnan(gap).all() else 0
            over = gap[at] / size if size else gap[at]
            if over > max(half_of_the_digits(eps), largest):
                largest = float(over)
                worst = (start + at, float(ours.reshape(-1)[at]), float(theirs.reshape(-1)[at]))
        start += theirs.size
    return worst


def _failure(
    row: int, component: int, rule: RuleName, severity: Severity, message: str, way: OtherCall
) -> Failure:
    """A failure whose identity is the way: the text of an error has shapes and numbers."""
    return Failure(
        rule, severity, row, GRADIENTS, component, Ground(Kind.CONTEXT, f"{rule} {way.name}"), message,
        everywhere=True, help=way.help,
    )  # fmt: skip


CONTEXT = Context()
