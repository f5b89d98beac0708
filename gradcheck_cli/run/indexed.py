"""A gradient and its findings as a report has them: by their numbers, without what is ignored."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Gradient, Severity, Status, Verdict
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.project.comments import Ignore
from gradcheck_cli.project.suppressions import suppressed
from gradcheck_cli.project.verdict import verdict


def indexed(
    checked: Checked, shown: Sequence[Finding], numbers: Sequence[int], ignores: Sequence[Ignore]
) -> Gradient:
    """The gradient with the numbers of its findings that are shown.

    What is not shown still counts for the verdict; what is suppressed with a reason is intended.
    """
    gradient = checked.gradient
    new = gradient.verdict
    silenced = [f for f in checked.findings if suppressed(f, ignores)]
    if silenced and gradient.status is Status.CHECKED:
        new = verdict(f for f in checked.findings if f not in silenced)
        if verdict(silenced).rank > new.rank:
            new = max(new, Verdict.INTENDED, key=lambda v: v.rank)
    grave = [f for f in checked.findings if f.severity is not Severity.NOTE]
    ignored = len(grave) - sum(f in grave for f in shown)
    return replace(gradient, findings=list(numbers), verdict=new, ignored=ignored)


def numbered(findings: Sequence[Finding], gradient: int) -> list[Finding]:
    return [replace(f, gradient_index=gradient) for f in findings]
