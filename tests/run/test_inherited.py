"""Errors that gradients inherit from inner rules that they take at their word."""

from __future__ import annotations

from typing import Any

import pytest

from gradcheck_cli.contract.report import LawResult, Outcome, Severity, Verdict
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.run.inherited import RULE, inherit
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding

WRONG = {"name": "inner", "verdict": Verdict.WRONG, "line": 7}


def outer(name: str = "outer", trusts: str = "inner", **changes: Any) -> Checked:
    trusting = finding("trusts-inner-rule", severity=Severity.NOTE, trusts=[trusts])
    formula = LawResult(law="formula", outcome=Outcome.PASS)
    return checked(trusting, name=name, laws=[formula], **changes)


def inheriting(*gradients: Checked) -> list[Checked]:
    files = [File(path) for path in dict.fromkeys(c.gradient.path for c in gradients)]
    for file in files:
        file.gradients += [c for c in gradients if c.gradient.path == file.display]
    inherit(files)
    return [c for file in files for c in file.gradients]


def test_what_trusts_a_wrong_rule_is_wrong_and_names_it() -> None:
    _, told = inheriting(checked(**WRONG), outer())
    assert told.gradient.verdict is Verdict.WRONG
    assert told.gradient.laws[0].outcome is Outcome.FAIL
    assert (told.findings[0].rule, told.findings[0].severity) == (RULE, Severity.ERROR)
    assert told.findings[0].message == "inherits the wrong formula of `inner`, line 7"


def test_what_trusts_what_inherits_inherits_too() -> None:
    told = inheriting(outer("outermost", "outer"), outer(), checked(**WRONG))
    assert [c.gradient.verdict for c in told] == [Verdict.WRONG] * 3


@pytest.mark.parametrize(
    "inner",
    [
        {"name": "inner", "verdict": Verdict.INTENDED},
        {"name": "inner", "verdict": Verdict.UNSTABLE},
        {**WRONG, "name": "another"},
        {**WRONG, "backend": "torch"},
    ],
)
def test_other_verdicts_names_and_backends_are_not_inherited(inner: Any) -> None:
    _, told = inheriting(checked(**inner), outer())
    assert told == outer()


def test_the_rule_of_another_file_is_named_with_it_if_it_is_the_only_one() -> None:
    told, _ = inheriting(outer(), checked(**WRONG, path="b.py"))
    assert told.findings[0].message == "inherits the wrong formula of `inner`, line 7 of b.py"
    told, *_ = inheriting(
        outer(), checked(**WRONG, path="b.py"), checked(name="inner", path="c.py")
    )
    assert told.gradient.verdict is Verdict.CORRECT
