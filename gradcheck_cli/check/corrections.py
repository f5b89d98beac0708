"""A correction of a wrong formula: the one change that makes it right, if there is one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from msgspec.structs import replace

from gradcheck_cli.check.deadline import OutOfTime
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.refitted import refitted
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Finding, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Phase
from gradcheck_cli.judge.place import at, is_of
from gradcheck_cli.judge.repair.correction import Correction, correction
from gradcheck_cli.project.rule_pages import find

CHANGE = "the change that makes it right"
_REFUSALS = (RuleName.GRADIENT_STRUCTURE, RuleName.RULE_RAISES, RuleName.UNDEFINED_NAME)
_NO_END = "the search for it did not come to its end"


def correctable(outcome: GradientOutcome) -> tuple[Finding, ...]:
    """Errors that a change of the rule's text may take away."""
    return tuple(
        f for f in outcome.findings if find(f.rule).correctable and f.severity is Severity.ERROR
    )


def uncorrected(outcome: GradientOutcome) -> GradientOutcome:
    """The outcome before the search: it stands if that crashes, hangs, or ends in a bug of ours."""
    return outcome + GradientOutcome(left_out=((CHANGE, _NO_END),))


def corrected(request: Request, outcome: GradientOutcome) -> GradientOutcome:
    """The outcome with the change in its findings; out of time, nothing but that is missing."""
    raised = [f for f in correctable(outcome) if f.rule in _REFUSALS]
    wrong = [f for f in correctable(outcome) if f.rule not in _REFUSALS]
    request.progress.doing(Phase.CORRECTING)
    try:
        with request.progress.timing(CHANGE):
            refit = _refit(request, outcome) if raised else None
            if refit is not None:  # right at what it took before, too
                return _with(refit, [*raised, *wrong], outcome, request)
            if wrong:
                fix = correction(outcome.trials, request.gradient)
                outcome = _with(fix, wrong, outcome, request)
    except OutOfTime:
        return outcome + GradientOutcome(left_out=((CHANGE, request.too_long),))
    return outcome


def _refit(request: Request, outcome: GradientOutcome) -> Correction | None:
    """The change with which the rule takes the call that it refuses; of several nobody knows which is meant."""
    calls = {signature.describe() for signature, _ in outcome.refused}
    if len(calls) != 1:
        return None
    return refitted(request, *outcome.refused[0], outcome.trials)


def _with(
    fix: Correction | None,
    wrong: Sequence[Finding],
    outcome: GradientOutcome,
    request: Request,
) -> GradientOutcome:
    """The outcome, with what to write told of these of its findings."""
    if fix is None:
        return outcome
    mended = tuple(_mended(f, fix, request) if f in wrong else f for f in outcome.findings)
    return dataclasses.replace(outcome, findings=mended)


def _mended(finding: Finding, fix: Correction, request: Request) -> Finding:
    """The finding at the expression that is wrong, with what to write there."""
    if not fix.patches or not is_of(fix.path, request.gradient):
        return replace(finding, fix=fix.text)
    placed, edits = at(finding, fix.patches[0]), list(fix.patches)
    return replace(placed, fix=fix.text, edits=edits, fix_is_safe=fix.is_safe)
