"""From the outcome of a gradient to what is told of it: status, verdict, and what was not covered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import (
    Finding,
    Gradient,
    NotCovered,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.judge.fingerprint import fingerprint
from gradcheck_cli.judge.intents.declarations import Declarations
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.verdict import verdict

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def checked(request: Request, outcome: GradientOutcome, intents: Sequence[Declared]) -> Checked:
    """Everything that the report says of one gradient; `intents` are those that were declared."""
    gradient, site = request.gradient, request.site
    findings = _shown((*outcome.findings, *_unused(request, outcome, intents)))
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
            reason=outcome.weaker if outcome.checked else _reason(outcome),
            verdict=_verdict(findings, outcome) if outcome.checked else None,
            evidence=outcome.evidence if outcome.laws and outcome.points else None,
            inputs=list(outcome.inputs),
            points=outcome.points,
            laws=list(outcome.laws),
        ),
        findings=findings,
        not_covered=list(_not_covered(request, outcome)),
        scripts=outcome.scripts,
        seconds=dict(request.progress.seconds),
    )


def _reason(outcome: GradientOutcome) -> str:
    """Why the gradient could not be checked."""
    return outcome.reasons[0] if outcome.reasons else "no inputs were found"


def _not_covered(request: Request, outcome: GradientOutcome) -> Iterator[NotCovered]:
    """What could not be checked: the whole gradient, single laws, parts of it, single probes."""
    name = request.gradient.place.qualname
    if not outcome.checked:
        line = None if outcome.missing_rule or outcome.late else _line_to_add(request)
        yield NotCovered.whole(name, _reason(outcome), line)
    for law in outcome.laws:
        if law.outcome is Outcome.NOT_COVERED:
            what = f"the law {law.law}"
            yield NotCovered(gradient=name, law=law.law, what=what, reason=law.reason or "")
    for what, why in outcome.left_out:
        yield NotCovered(gradient=name, law=None, what=what, reason=why)
    if outcome.undecided:
        why = "the truth there could not be enclosed within the limits of precision and cost"
        what = f"{outcome.undecided} of {outcome.points} probes"
        yield NotCovered(gradient=name, law=None, what=what, reason=why)


def _shown(findings: Sequence[Finding]) -> list[Finding]:
    """The gravest first; that a rule is redundant is not worth telling beside a fault of it."""
    loud = any(f.severity is not Severity.NOTE for f in findings)
    left = [f for f in findings if not (loud and f.rule == RuleName.REDUNDANT_RULE)]
    return sorted(left, key=lambda f: (_ORDER.index(f.severity), f.code, f.message))


def _unused(
    request: Request, outcome: GradientOutcome, intents: Sequence[Declared]
) -> Iterator[Finding]:
    """Declarations that explained nothing, once everything was tried."""
    if not outcome.checked or outcome.late:
        return
    rule, site = find(RuleName.UNUSED_INTENT), request.site
    declarations = Declarations(list(intents), set(outcome.answered), set(outcome.broken))
    for declared in declarations.unused:
        message = f"`expect({declared.text})` explains nothing"
        finding = rule.finding(site.path, site.line, message, about=declared.name)
        yield replace(finding, gradient=request.gradient.place.qualname)


def _verdict(findings: Sequence[Finding], outcome: GradientOutcome) -> Verdict:
    """A deviation that is declared, and holds its law, is intended; what was cut off is not decided."""
    worst = verdict(findings)
    if outcome.late or not outcome.points or outcome.law(FORMULA.name) is Outcome.NOT_COVERED:
        return max(worst, Verdict.INCONCLUSIVE, key=lambda v: v.rank)
    if outcome.answered:
        return max(worst, Verdict.INTENDED, key=lambda v: v.rank)
    return worst


def _line_to_add(request: Request) -> str:
    """What makes it checkable today: a function of plain arrays around it, checked by its name."""
    gradient = request.gradient
    names = ", ".join(p.name for p in gradient.parameters()) or "…"
    return (
        f"`def check_{gradient.name}(x): return {gradient.spelling}({names})` with arguments of the right "
        f"shapes made from x, and run cgcheck {request.site.target}:check_{gradient.name}"
    )
