"""Findings about a gradient that could not be judged at a signature."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.judge.fingerprint import Site, fingerprint
from gradcheck_cli.judge.unjudged import failed, refused
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.refusals import RuleError
from tests.traced import gradient_of, traced

SITE = Site("model.py", 3, 5, 9, "loss", "model.py")
SIGNATURE = Signature((("x", Leaf("x", (2,), "test")),))
GRADIENT = gradient_of(lambda x: x)
RULE = find(RuleName.GRADIENT_STRUCTURE)


@pytest.mark.parametrize(
    ("error", "severity", "message", "help"),
    [
        (RuleError("TypeError", "TypeError: no"), Severity.ERROR, "at x: float[2], the function runs and its rule raises TypeError: no", RULE.help),
        (RuleError("count", "it gives 1 gradient for 2", silent=True), Severity.WARNING, "at x: float[2], it gives 1 gradient for 2", RULE.help),
        (RuleError("TypeError", "TypeError: no"), Severity.NOTE, "the function takes x: float[2], its rule does not", "TypeError: no"),
    ],
)  # fmt: skip
def test_a_refusal_says_where_and_why(
    error: RuleError, severity: Severity, message: str, help: str
) -> None:
    finding = refused(GRADIENT, SITE, SIGNATURE, error, severity, "float32")
    assert (finding.severity, finding.message, finding.help) == (severity, message, help)
    assert (finding.rule, finding.code) == (RULE.name, RULE.code)
    assert (finding.path, finding.line, finding.column) == ("model.py", 3, 5)
    assert (finding.end_line, finding.end_column) == (3, 9)
    assert (finding.gradient, finding.backends) == ("f", ["jax"])
    assert finding.dtypes == ["float32"]
    assert finding.reproduce == "cgcheck model.py:loss"


def test_the_stage_is_the_identity_and_not_the_text_of_the_error() -> None:
    one, other = (
        refused(GRADIENT, SITE, SIGNATURE, RuleError("count", text), Severity.ERROR, "float32")
        for text in ("3 instead of 4", "5 instead of 6")
    )
    assert one.fingerprint == other.fingerprint == fingerprint(RULE.name, SITE, "count", 0)


def raised() -> Exception:
    try:
        raise ValueError("a mistake")
    except ValueError as error:
        return error


def test_a_bug_of_ours_says_where_it_is() -> None:
    subject: Any = traced(lambda x: x, [1.0]).subject
    finding = failed(GRADIENT, SITE, subject, raised())
    start = "at x: float[], cgcheck itself failed: ValueError: a mistake (test_unjudged.py:"
    assert finding.message.startswith(start)
    assert (finding.rule, finding.severity) == ("internal-error", Severity.ERROR)
