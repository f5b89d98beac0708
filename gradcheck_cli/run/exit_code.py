"""The exit code of a run, from its findings."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.contract.report import Finding, Gradient, NotCovered, Severity, Status, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.settings import Settings

OK, FINDINGS, COULD_NOT_CHECK, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130


def exit_code(
    gradients: Sequence[Gradient],
    findings: Sequence[Finding],
    not_covered: Sequence[NotCovered],
    settings: Settings,
    *,
    named_left: bool = False,
) -> int:
    """The highest exit code that applies; `named_left`: something that was asked for by name was not checked."""
    code = OK
    if settings.fail_on != "never":
        least = Severity(settings.fail_on).rank
        if settings.strict:
            least = min(least, Severity.WARNING.rank)
        if any(f.severity.rank >= least for f in findings if not find(f.rule).could_not_check):
            code = FINDINGS
        if settings.strict and (not_covered or _open(gradients)):
            code = FINDINGS
    if any(could_not(f) for f in findings) or named_left or _nothing(gradients, not_covered):
        code = COULD_NOT_CHECK
    if any(f.rule == RuleName.INTERNAL_ERROR for f in findings):
        code = INTERNAL
    return code


def _open(gradients: Sequence[Gradient]) -> bool:
    return any(g.status is Status.UNCHECKED or g.verdict is Verdict.INCONCLUSIVE for g in gradients)


def _nothing(gradients: Sequence[Gradient], not_covered: Sequence[NotCovered]) -> bool:
    """Are there gradients, and not one of them was checked? That is never green."""
    checked = any(g.status is Status.CHECKED for g in gradients)
    return not checked and (bool(gradients) or any(item.is_whole for item in not_covered))


def could_not(finding: Finding) -> bool:
    """Was the file never imported, or did its worker die before it had a gradient in hand?"""
    rule = find(finding.rule)
    if rule.could_not_check:
        return finding.severity is Severity.ERROR
    return rule.death and finding.gradient is None
