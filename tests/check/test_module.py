"""The module of a task, or why it cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradcheck_cli.check.module import imported
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.worker import FileFinding
from tests.check.fakes import TASK


@pytest.mark.parametrize(
    ("optional", "severity"),
    [
        ([], Severity.ERROR),
        (["nowhere-to-be-found"], Severity.NOTE),
        (["elsewhere"], Severity.ERROR),
    ],
)
def test_a_missing_package_is_an_error_if_it_is_not_optional(
    project: Path, optional: list[str], severity: Severity
) -> None:
    path = project / "needs_it.py"
    path.write_text("import nowhere_to_be_found.part\n")
    task = replace(TASK, path=str(path), display="needs_it.py", optional_imports=optional)
    answer = imported(task, lambda line: None)
    assert isinstance(answer, FileFinding)
    assert (answer.finding.severity, answer.finding.line) == (severity, 1)
    cure = "pip install nowhere_to_be_found, or name it in `optional-imports`"
    known = "and may be missing: `optional-imports` names it"
    assert (known if severity is Severity.NOTE else cure) in answer.finding.message
