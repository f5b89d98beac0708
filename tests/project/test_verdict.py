"""The verdict of a gradient is the worst that its findings say."""

from __future__ import annotations

import pytest

from gradcheck_cli.contract.report import Finding, Severity, Verdict
from gradcheck_cli.project.verdict import verdict
from tests.reports import finding, note

WRONG = finding("gradient-mismatch")
UNSTABLE = finding("non-finite-gradient")


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], Verdict.CORRECT),
        ([WRONG], Verdict.WRONG),
        ([UNSTABLE], Verdict.UNSTABLE),
        ([UNSTABLE, WRONG], Verdict.WRONG),
        ([WRONG, UNSTABLE], Verdict.WRONG),
        ([note("non-finite-gradient"), note()], Verdict.CORRECT),
        ([finding("gradient-mismatch", severity=Severity.WARNING)], Verdict.CORRECT),
        ([finding("non-finite-gradient", severity=Severity.WARNING)], Verdict.UNSTABLE),
        ([finding("unused-ignore")], Verdict.CORRECT),
    ],
)
def test_the_worst_finding_decides(findings: list[Finding], expected: Verdict) -> None:
    assert verdict(findings) is expected
