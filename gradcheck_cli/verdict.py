"""From findings to one verdict for each gradient (SEMANTICS G)."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.rule_names import RuleName
from gradcheck_cli.words import Finding, Severity, Verdict

_WRONG = frozenset(
    {
        RuleName.GRADIENT_MISMATCH,
        RuleName.NONLINEAR_COTANGENT,
        RuleName.VALUE_MISMATCH,
        RuleName.GRADIENT_STRUCTURE,
        RuleName.CONTEXT_DEPENDENT_GRADIENT,
        RuleName.IMPURE_RULE,
        RuleName.BROKEN_INTENT,
    }
)
_UNSTABLE = frozenset(
    {
        RuleName.NON_FINITE_GRADIENT,
        RuleName.NON_FINITE_VALUE,
        RuleName.IMPRECISE_GRADIENT,
        RuleName.IMPRECISE_VALUE,
    }
)
_INTENDED = frozenset({RuleName.UNDECLARED_SURROGATE})
_INCONCLUSIVE = frozenset({RuleName.INCONCLUSIVE_GRADIENT, RuleName.INTERNAL_ERROR})


def verdict(findings: Iterable[Finding]) -> Verdict:
    """The worst that any finding says; notes never change it."""
    worst = Verdict.CORRECT
    for finding in findings:
        said = _says(finding)
        worst = max(worst, said, key=lambda v: v.rank)
    return worst


def _says(finding: Finding) -> Verdict:
    if finding.severity is Severity.NOTE:
        return Verdict.CORRECT
    if finding.rule in _WRONG and finding.severity is Severity.ERROR:
        return Verdict.WRONG
    if finding.rule in _UNSTABLE:
        return Verdict.UNSTABLE
    if finding.rule in _INTENDED:
        return Verdict.INTENDED
    return Verdict.INCONCLUSIVE if finding.rule in _INCONCLUSIVE else Verdict.CORRECT
