"""Errors that rest on a function which nobody but cgcheck chose: they are notes, and prove nothing."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Finding, LawResult, Outcome, Severity
from gradcheck_cli.discover.callers import caller
from gradcheck_cli.inputs.signature import Fixed, Signature
from gradcheck_cli.subject.protocol import CustomGradient

MADE_UP = "which cgcheck made up"  # as a reason ends of which nothing more is known


def invention(gradient: CustomGradient, signature: Signature) -> str:
    """The function that was made up for the gradient or for this signature, and for which parameter."""
    for name, value in signature.arguments:
        if isinstance(value, Fixed) and value.invented:
            return f"`{value.text}` for `{name}`"
    return gradient.place.invented


def softened(request: Request, signature: Signature, step: GradientOutcome) -> GradientOutcome:
    """What a step adds, with errors and warnings as notes where the signature rests on an invention."""
    invented = invention(request.gradient, signature)
    if not invented:
        return step
    why = _why(request, invented)
    loud = any(f.severity is not Severity.NOTE for f in step.findings)
    failed = any(law.outcome is Outcome.FAIL for law in step.laws)
    if not (loud or failed):
        return _unproved(request, step, why)
    return replace(as_notes(step, why), in_doubt=True)


def as_notes(step: GradientOutcome, why: str) -> GradientOutcome:
    """What a step adds, with errors and warnings as notes that say why they prove nothing."""
    return replace(
        step,
        findings=tuple(_as_note(finding, why) for finding in step.findings),
        laws=tuple(_not_judged(law, why) for law in step.laws),
    )


def _unproved(request: Request, step: GradientOutcome, why: str) -> GradientOutcome:
    """A step that found nothing: with a function of nobody's it proves as little as it finds.

    What a factory makes of a made-up function is the module's own rule, and is judged as such.
    """
    if not step.laws or request.gradient.place.invented:
        return step
    return replace(step, in_doubt=True, left_out=(*step.left_out, ("what it is called with", why)))


def _why(request: Request, invented: str) -> str:
    place, target = request.gradient.place, request.site.target
    proper = caller(place.path, place.qualname)
    reason = f"it rests on {invented}, {MADE_UP}"
    if not proper:
        return reason
    return f"{reason}; `{proper}` calls it with one of its own: cgcheck {target}:{proper}"


def _as_note(finding: Finding, why: str) -> Finding:
    if finding.severity is Severity.NOTE:
        return finding
    message = f"{finding.message}; {why}"
    return msgspec.structs.replace(finding, severity=Severity.NOTE, message=message)


def _not_judged(law: LawResult, why: str) -> LawResult:
    if law.outcome is not Outcome.FAIL:
        return law
    return LawResult(law=law.law, outcome=Outcome.NOT_COVERED, points=law.points, reason=why)
