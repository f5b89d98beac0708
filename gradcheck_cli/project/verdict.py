"""From findings to one verdict for each gradient (SEMANTICS G)."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.contract.report import Finding, Severity, Verdict
from gradcheck_cli.project.rule_pages import find


def verdict(findings: Iterable[Finding]) -> Verdict:
    """The worst that any finding says; most notes do not change it."""
    worst = Verdict.CORRECT
    for finding in findings:
        worst = max(worst, _of(finding), key=lambda v: v.rank)
    return worst


def _of(finding: Finding) -> Verdict:
    rule = find(finding.rule)
    verdict = rule.verdict
    if finding.severity is Severity.NOTE:
        return rule.verdict_of_note or Verdict.CORRECT
    mild = verdict is Verdict.WRONG and finding.severity is not Severity.ERROR
    if verdict is None or mild:
        return Verdict.CORRECT
    return verdict
