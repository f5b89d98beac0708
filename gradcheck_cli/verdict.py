"""From findings to one verdict for each gradient (SEMANTICS G)."""

from __future__ import annotations

from collections.abc import Iterable

from gradcheck_cli.words import Finding, Severity, Verdict

_WRONG = frozenset(
    {
        "gradient-mismatch",
        "nonlinear-cotangent",
        "value-mismatch",
        "gradient-structure",
        "context-dependent-gradient",
        "impure-rule",
        "broken-intent",
    }
)
_UNSTABLE = frozenset(
    {"non-finite-gradient", "non-finite-value", "imprecise-gradient", "imprecise-value"}
)
_INTENDED = frozenset({"undeclared-surrogate"})
_INCONCLUSIVE = frozenset({"inconclusive-gradient", "internal-error"})


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
