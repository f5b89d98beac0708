"""What is gathered while one gradient is judged, and what is said of it in the end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace

from gradcheck_cli.contract.report import (
    Evidence,
    Finding,
    Gradient,
    Input,
    LawResult,
    NotCovered,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.judge.diagnose.correction import Trial
from gradcheck_cli.judge.fingerprint import Site, fingerprint
from gradcheck_cli.judge.intents.declarations import Declarations
from gradcheck_cli.judge.laws import Judgement
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.verdict import verdict
from gradcheck_cli.subject.protocol import CustomGradient, Shaped


@dataclass(slots=True)
class Notebook:
    """What is gathered while the subjects of one gradient are judged."""

    findings: list[Finding] = field(default_factory=list)
    seen: list[Failure] = field(default_factory=list)
    laws: dict[str, LawResult] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    not_covered: list[NotCovered] = field(default_factory=list)
    points: int = 0
    undecided: int = 0
    weaker: str | None = None
    parts: list[tuple[str, str]] = field(default_factory=list)  # what was left out, and why
    in_part: bool = False
    declared: Declarations | None = None
    trials: list[Trial] = field(default_factory=list)  # what a correction must make right
    scripts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    late: bool = False
    checked: bool = False
    missing_rule: bool = False
    judging: str = "the inputs"  # the last signature that was begun
    evidence: Evidence = Evidence.CERTIFIED

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """What this takes is added to the seconds of `what`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start


def note_inputs(subject: Shaped, points: Points | None, book: Notebook) -> None:
    for name, value in subject.signature.arguments:
        if isinstance(value, Fixed):
            shape = list(getattr(value.value, "shape", ()))
            book.inputs.append(
                Input(path=name, dtype="fixed", shape=shape, domain=value.text, source=value.source)
            )
    arrays = points.leaves if points is not None else [None] * len(subject.leaves)
    for leaf, array in zip(subject.leaves, arrays, strict=True):
        domain = leaf.domain.text if leaf.domain is not None else ""
        if array is not None and array.size:
            domain = f"[{float(array.min()):g}, {float(array.max()):g}]"
        book.inputs.append(
            Input(
                path=leaf.path,
                dtype=subject.dtype,
                shape=list(leaf.shape),
                domain=domain,
                source=leaf.source,
            )
        )


def note_law(judgement: Judgement, m: Measurements, book: Notebook) -> None:
    """Outcomes of several signatures add up; the worst stands."""
    order = [Outcome.NOT_APPLICABLE, Outcome.PASS, Outcome.NOT_COVERED, Outcome.FAIL]
    old = book.laws.get(judgement.law)
    evidence = _weaker(judgement.evidence, m.evidence)
    outcome = judgement.outcome
    points = judgement.points
    reason = judgement.reason
    if old is not None:
        points += old.points
        if order.index(old.outcome) >= order.index(outcome):
            outcome, reason = old.outcome, old.reason or reason
    judged = outcome in (Outcome.PASS, Outcome.FAIL)
    if judged:
        book.evidence = _weaker(book.evidence, evidence)
        if old is not None and old.evidence is not None:
            evidence = _weaker(evidence, old.evidence)
    book.laws[judgement.law] = LawResult(
        law=judgement.law,
        outcome=outcome,
        evidence=evidence if judged else None,
        points=points,
        reason=reason,
    )


def _weaker(a: Evidence, b: Evidence) -> Evidence:
    return max(a, b, key=lambda e: e.rank)


def summed(
    gradient: CustomGradient, device: str, site: Site, book: Notebook, reasons: Sequence[str]
) -> Checked:
    status = Status.CHECKED if book.checked else Status.UNCHECKED
    reason = book.weaker
    if status is Status.UNCHECKED:
        reason = reasons[0] if reasons else "no inputs were found"
        add = None if book.missing_rule or book.late else _line_to_add(gradient, site)
        book.not_covered.append(NotCovered.whole(gradient.place.qualname, reason, add))
    for law in book.laws.values():
        if law.outcome is Outcome.NOT_COVERED:
            book.not_covered.append(
                NotCovered(gradient=gradient.place.qualname, law=law.law, what=f"the law {law.law}", reason=law.reason or "")
            )  # fmt: skip
    for what, why in book.parts:
        book.not_covered.append(
            NotCovered(gradient=gradient.place.qualname, law=None, what=what, reason=why)
        )
    if book.undecided:
        book.not_covered.append(
            NotCovered(
                gradient=gradient.place.qualname,
                law=None,
                what=f"{book.undecided} of {book.points} probes",
                reason="the truth there could not be enclosed within the limits of precision and cost",
            )
        )
    book.findings += _unused(gradient, site, book)
    order = [Severity.ERROR, Severity.WARNING, Severity.NOTE]
    loud = any(f.severity is not Severity.NOTE for f in book.findings)
    told = [f for f in book.findings if not (loud and f.rule == RuleName.REDUNDANT_RULE)]
    findings = sorted(told, key=lambda f: (order.index(f.severity), f.code, f.message))
    return Checked(
        gradient=Gradient(
            id=fingerprint("gradient", site, gradient.kind, 0),
            name=gradient.name,
            qualname=gradient.place.qualname,
            path=site.path,
            line=site.line,
            framework=gradient.framework,
            kind=gradient.kind,
            backend=gradient.backend,
            device=device,
            dtypes=book.dtypes,
            status=status,
            reason=reason,
            verdict=_verdict(findings, book) if book.checked else None,
            evidence=book.evidence if book.laws and book.points else None,
            inputs=book.inputs,
            points=book.points,
            laws=list(book.laws.values()),
        ),
        findings=findings,
        not_covered=book.not_covered,
        scripts=book.scripts,
        seconds=book.seconds,
    )


def _unused(gradient: CustomGradient, site: Site, book: Notebook) -> list[Finding]:
    """Declarations that explained nothing, once everything was tried."""
    if book.declared is None or not book.checked or book.late:
        return []
    rule = find(RuleName.UNUSED_INTENT)
    return [
        replace(
            rule.finding(
                site.path, site.line, f"`expect({d.text})` explains nothing", about=d.name
            ),
            gradient=gradient.place.qualname,
        )
        for d in book.declared.unused
    ]


def _verdict(findings: Sequence[Finding], book: Notebook) -> Verdict:
    """A deviation that is declared, and holds its law, is intended; what was cut off is not decided."""
    worst = verdict(findings)
    formula = book.laws.get(FORMULA.name)
    open_ = formula is not None and formula.outcome is Outcome.NOT_COVERED
    if book.late or not book.points or open_:
        return max(worst, Verdict.INCONCLUSIVE, key=lambda v: v.rank)
    if book.declared is not None and book.declared.used:
        return max(worst, Verdict.INTENDED, key=lambda v: v.rank)
    return worst


def _line_to_add(gradient: CustomGradient, site: Site) -> str:
    """What makes it checkable today: a function of plain arrays around it, checked by its name."""
    names = ", ".join(p.name for p in gradient.parameters()) or "…"
    return (
        f"`def check_{gradient.name}(x): return {gradient.spelling}({names})` with arguments of the right "
        f"shapes made from x, and run cgcheck {site.target}:check_{gradient.name}"
    )
