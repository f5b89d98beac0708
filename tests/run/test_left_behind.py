"""Gradients of files that no worker got through stay in the count."""

from __future__ import annotations

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.worker import Mark
from gradcheck_cli.run.left_behind import left_behind
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding, task

MARKS = [Mark(name=name, line=3, framework="jax", kind="custom_vjp") for name in ("f", "g")]


def a_file() -> File:
    return File("a.py", tasks=[task(marked={"jax": MARKS})])


def test_what_a_file_that_was_not_imported_defines_is_named() -> None:
    file = a_file()
    file.findings.append(finding("import-failed", gradient=None))
    left = left_behind(file)
    assert [item.gradient for item in left] == ["f", "g"]
    assert {item.reason for item in left} == {"its file could not be imported"}


def test_what_was_checked_is_not_left_behind() -> None:
    file = a_file()
    file.findings.append(finding("import-failed", gradient=None))
    file.gradients.append(checked(name="f"))
    assert [item.gradient for item in left_behind(file)] == ["g"]
    assert left_behind(a_file()) == []


def test_what_needs_an_optional_package_stays_in_the_count() -> None:
    file = a_file()
    file.findings.append(finding("import-failed", severity=Severity.NOTE, gradient=None))
    assert [item.gradient for item in left_behind(file)] == ["f", "g"]
    file.findings[:] = [finding("unknown-argument", severity=Severity.WARNING, gradient=None)]
    assert left_behind(file) == []
