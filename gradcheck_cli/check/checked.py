"""From the outcome of a gradient to what is told of it: status, verdict, and what was not covered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gradcheck_cli.check.blind_inputs import adequacy_of, blind_inputs
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.not_covered import not_covered, reason
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.unused_intents import unused
from gradcheck_cli.contract.report import (
    Finding,
    Gradient,
    Input,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.judge.fingerprint import fingerprint
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.project.verdict import verdict

_DEVIATIONS = (RuleName.UNDECLARED_SURROGATE, RuleName.UNDECLARED_DEVIATION)
_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def checked(request: Request, start: Opening, outcome: GradientOutcome) -> Checked:
    """Everything that the report says of one gradient; `start` is what was known before."""
    gradient, site = request.gradient, request.site
    findings = _shown((*outcome.findings, *unused(request, start, outcome)), outcome.stands_still)
    first = [f for f in findings if f.rule != RuleName.WRONG_SECOND_DERIVATIVE]
    if _verdict(first, outcome) is Verdict.INTENDED:  # then its second derivative deviates, too
        findings = first
    right = outcome.checked and _verdict(findings, outcome) in (Verdict.CORRECT, Verdict.INTENDED)
    adequacy = adequacy_of(request, outcome) if right else None
    findings += blind_inputs(request, adequacy)
    status = Status.CHECKED if outcome.checked else Status.UNCHECKED
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
            device=request.framework.device,
            dtypes=list(outcome.dtypes),
            status=status,
            reason=outcome.weaker if outcome.checked else reason(outcome),
            verdict=_verdict(findings, outcome) if outcome.checked else None,
            evidence=outcome.evidence if outcome.laws and outcome.points else None,
            inputs=list(_numbered(outcome.inputs)),
            points=outcome.points,
            laws=list(outcome.laws),
            adequacy=adequacy,
            plots=list(outcome.plots),
        ),
        findings=findings,
        not_covered=list(not_covered(request, start, outcome)),
        scripts=outcome.scripts,
        seconds=dict(request.progress.seconds),
    )


def _numbered(signatures: Sequence[Sequence[Input]]) -> Iterator[Input]:
    """The inputs of all signatures, each with the number of its own."""
    for number, inputs in enumerate(signatures, start=1):
        yield from (replace(item, signature=number) for item in inputs)


def _shown(findings: Sequence[Finding], is_still: bool) -> list[Finding]:
    """The gravest first, and what is one fault once; that a rule is redundant is told beside no fault or deviation, nor of values that never change.

    What is wrong at one signature is no meant deviation at another one.
    """
    wrong = {_argument(f) for f in findings if f.rule == RuleName.GRADIENT_MISMATCH} - {None}
    findings = [f for f in findings if not (f.rule in _DEVIATIONS and _argument(f) in wrong)]
    loud = is_still or any(
        f.severity is not Severity.NOTE or f.rule == RuleName.UNDECLARED_DEVIATION for f in findings
    )
    left = [f for f in findings if not (loud and f.rule == RuleName.REDUNDANT_RULE)]
    ordered = sorted(left, key=lambda f: (_ORDER.index(f.severity), f.code, f.message))
    each: dict[str, Finding] = {}
    for finding in ordered:
        each.setdefault(finding.fingerprint, finding)
    return list(each.values())


def _argument(finding: Finding) -> str | None:
    """The argument whose gradient the finding is about."""
    return None if finding.witness is None else finding.witness.argument


def _verdict(findings: Sequence[Finding], outcome: GradientOutcome) -> Verdict:
    """A deviation that is declared, and holds its law, is intended; what was cut off is not decided."""
    worst = verdict(findings)
    unsure = outcome.late or outcome.in_doubt or outcome.stands_still or not outcome.points
    if unsure or outcome.law(FORMULA.name) is Outcome.NOT_COVERED:
        return max(worst, Verdict.INCONCLUSIVE, key=lambda v: v.rank)
    if outcome.answered:
        return max(worst, Verdict.INTENDED, key=lambda v: v.rank)
    return worst
