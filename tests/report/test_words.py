"""What stands behind a verdict."""

from __future__ import annotations

import pytest

from gradcheck_cli.contract.report import Finding, LawResult, Outcome, Verdict
from gradcheck_cli.report.words import about
from tests.reports import finding, gradient, note


@pytest.mark.parametrize(
    ("verdict", "findings", "said"),
    [
        (Verdict.CORRECT, [], "formula right"),
        (Verdict.CORRECT, [note("wrong-second-derivative")], "formula right to first order"),
        (Verdict.INTENDED, [], "formula as meant"),
        (Verdict.WRONG, [finding("broken-intent")], "formula not as declared"),
    ],
)
def test_a_formula_is_right_as_meant_or_not_as_declared(
    verdict: Verdict, findings: list[Finding], said: str
) -> None:
    passed = LawResult(law="formula", outcome=Outcome.PASS)
    assert said in about(gradient(verdict=verdict, laws=[passed]), findings).split(" · ")
