"""The exit code: the highest that applies."""

from __future__ import annotations

import pytest

from gradcheck_cli.contract.report import Finding, Gradient, NotCovered, Severity, Status, Verdict
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.exit_code import exit_code
from tests.reports import finding, gradient, note

ERROR = finding()
WARNING = finding("gradient-mismatch", severity=Severity.WARNING)
NOTE = note()
NOT_IMPORTED = finding("import-failed", gradient=None)
BUG = finding("internal-error")
LEFT = NotCovered.whole("f", "no inputs")


@pytest.mark.parametrize(
    ("findings", "settings", "code"),
    [
        ([], Settings(), 0),
        ([NOTE, WARNING], Settings(), 0),
        ([ERROR], Settings(), 1),
        ([ERROR], Settings(fail_on="never"), 0),
        ([WARNING], Settings(fail_on="warning"), 1),
        ([NOTE], Settings(fail_on="warning"), 0),
        ([NOTE], Settings(fail_on="note"), 1),
        ([WARNING], Settings(strict=True), 1),
        ([NOTE], Settings(strict=True), 0),
        ([NOT_IMPORTED], Settings(), 2),
        ([ERROR, NOT_IMPORTED], Settings(), 2),
        ([NOT_IMPORTED], Settings(fail_on="never"), 2),
        ([finding("worker-crashed", gradient=None)], Settings(), 2),
        ([finding("worker-crashed")], Settings(), 1),
        ([BUG, NOT_IMPORTED, ERROR], Settings(), 3),
    ],
)
def test_the_highest_code_that_applies(
    findings: list[Finding], settings: Settings, code: int
) -> None:
    assert exit_code([gradient()], findings, [], settings) == code


@pytest.mark.parametrize(
    ("open_", "left"),
    [
        (gradient(verdict=Verdict.INCONCLUSIVE), []),
        (gradient(verdict=None, status=Status.UNCHECKED), []),
        (gradient(), [LEFT]),
    ],
)
def test_what_is_open_fails_a_strict_run_alone(open_: Gradient, left: list[NotCovered]) -> None:
    assert exit_code([gradient(), open_], [], left, Settings()) == 0
    assert exit_code([gradient(), open_], [], left, Settings(strict=True)) == 1


def test_nothing_checked_of_what_there_is_is_never_green() -> None:
    unchecked = gradient(verdict=None, status=Status.UNCHECKED)
    assert exit_code([], [], [LEFT], Settings()) == 2
    assert exit_code([unchecked], [], [], Settings(fail_on="never")) == 2
    assert exit_code([], [], [], Settings()) == 0


def test_what_was_asked_for_by_name_and_not_checked_is_not_green() -> None:
    assert exit_code([gradient()], [], [LEFT], Settings(), named_left=True) == 2
