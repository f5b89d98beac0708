"""What a law is: it plans probes, and judges what was measured at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gradcheck_cli.measure.again import Alone
from gradcheck_cli.measure.engine import Measurements, Probe
from gradcheck_cli.rule_names import RuleName
from gradcheck_cli.words import Evidence, Outcome, Severity

Array = np.ndarray[Any, Any]
Holds = Callable[[Measurements], Array]


@dataclass(frozen=True, slots=True)
class Failure:
    """One violation at a row, before it becomes a finding.

    `what` and `component` say which number; `cause` groups failures that are
    one; `holds` tells for other measurements whether the same is true there.
    """

    rule: RuleName
    severity: Severity
    row: int
    what: str
    component: int
    cause: str
    message: str
    modes: tuple[str, ...] = ()
    holds: Holds | None = None
    as_grave: Holds | None = None  # the same, and it matters as much: for simpler witnesses
    everywhere: bool = False
    help: str | None = None
    expect: str | None = None  # what declares it, if it was meant
    alone: Alone | None = None  # the run by itself that has confirmed it


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one law on one subject."""

    law: str
    outcome: Outcome
    points: int = 0
    failures: Sequence[Failure] = field(default_factory=tuple)
    reason: str | None = None
    evidence: Evidence = Evidence.CERTIFIED  # if weaker than that of the measurements


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a law has nothing to say of some measurements: it does not apply, or is not covered."""

    outcome: Outcome
    text: str | None


NO_RULE = Reason(Outcome.NOT_APPLICABLE, "there is no custom rule")


class Law(Protocol):
    @property
    def name(self) -> str: ...
    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]: ...
    def applicable(self, m: Measurements) -> Reason | None:
        """Why it is not asked, if it is not."""
        ...

    def judge(self, m: Measurements) -> Judgement: ...


def judgement(law: Law, m: Measurements) -> Judgement:
    """What a law says of the measurements, or why it has nothing to say."""
    reason = law.applicable(m)
    if reason is None:
        return law.judge(m)
    return Judgement(law.name, reason.outcome, reason=reason.text)


def over_the_reals(m: Measurements) -> Reason | None:
    """Why the rule's formula is not known, if it is not."""
    if not m.ruled:
        return NO_RULE
    return Reason(Outcome.NOT_COVERED, m.sources.reason) if m.rule is None else None


def judged(
    law: str, points: int, failures: Sequence[Failure], reason: str | None = None
) -> Judgement:
    """Pass without failures above a note, fail otherwise."""
    bad = any(f.severity is not Severity.NOTE for f in failures)
    return Judgement(law, Outcome.FAIL if bad else Outcome.PASS, points, tuple(failures), reason)


def component_name(m: Measurements, what: str, component: int) -> tuple[int, tuple[int, ...]]:
    """Leaf (or output) number and index of a component."""
    for number, (shape, elements) in enumerate(m.components(what)):
        if component < len(elements):
            place = np.unravel_index(elements[component], shape) if shape else ()
            return number, tuple(int(i) for i in place)
        component -= len(elements)
    raise IndexError(component)
