"""What a law is: it plans probes, and judges what was measured at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gradcheck_cli.measure.engine import Measurements, Probe
from gradcheck_cli.words import Evidence, Outcome, Severity

Array = np.ndarray[Any, Any]
Holds = Callable[[Measurements], Array]


@dataclass(frozen=True, slots=True)
class Failure:
    """One violation at a row, before it becomes a finding.

    `what` and `component` say which number; `cause` groups failures that are
    one; `holds` tells for other measurements whether the same is true there.
    """

    rule: str
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


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one law on one subject."""

    law: str
    outcome: Outcome
    points: int = 0
    failures: Sequence[Failure] = field(default_factory=tuple)
    reason: str | None = None
    evidence: Evidence = Evidence.CERTIFIED  # if weaker than that of the measurements


class Law(Protocol):
    @property
    def name(self) -> str: ...
    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]: ...
    def judge(self, m: Measurements) -> Judgement: ...


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
