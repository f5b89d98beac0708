"""What a law is: it plans probes, and judges what was measured at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gradcheck_cli.contract.report import Evidence, Outcome, Severity
from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements, Probe


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
    """Why a law does not judge measurements: it does not apply, or they are not covered."""

    outcome: Outcome
    text: str | None


NO_RULE = Reason(Outcome.NOT_APPLICABLE, "there is no custom rule")


class Law(Protocol):
    @property
    def name(self) -> str: ...
    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]: ...
    def applicable(self, m: Measurements) -> Reason | None:
        """Why the law does not judge these measurements, if it does not."""
        ...

    def judge(self, m: Measurements) -> Judgement: ...


def base_probes(points: int) -> list[Probe]:
    """The base cotangent at every point."""
    return [Probe(i, BASE) for i in range(points)]


def judgement(law: Law, m: Measurements) -> Judgement:
    """The judgement of a law on measurements, or the reason why there is none."""
    reason = law.applicable(m)
    if reason is None:
        return law.judge(m)
    return Judgement(law.name, reason.outcome, reason=reason.text)


def over_the_reals(m: Measurements) -> Reason | None:
    """Why the rule has no formula over the reals that could be judged, if it has none."""
    if not m.ruled:
        traces = m.subject.traces()
        inner = traces.reason if traces.primal is not None else None
        return NO_RULE if inner is None else Reason(Outcome.NOT_COVERED, inner)
    return Reason(Outcome.NOT_COVERED, m.sources.reason) if m.rule is None else None


def judged(
    law: str, points: int, failures: Sequence[Failure], reason: str | None = None
) -> Judgement:
    """The judgement of a law by its failures: it passes if there are notes at most."""
    bad = any(f.severity is not Severity.NOTE for f in failures)
    return Judgement(law, Outcome.FAIL if bad else Outcome.PASS, points, tuple(failures), reason)
