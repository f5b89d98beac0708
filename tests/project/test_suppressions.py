"""Suppressions for a line, a file, a path; those that suppress nothing can be taken out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import WRONG, cgcheck, check_json

ALL = "gradient-mismatch"


def _rules(project: Path, source: str, *args: str) -> list[str]:
    (project / "model.py").write_text(source)
    return [r for r in check_json("model.py", *args, cwd=project).rules() if r in (ALL, "unused-ignore")]  # fmt: skip


def test_a_comment_for_the_whole_file(project: Path) -> None:
    assert _rules(project, WRONG) == [ALL]
    assert _rules(project, f"# cgcheck: ignore-file[{ALL}] -- meant\n{WRONG}") == []


def test_paths_in_the_settings(project: Path) -> None:
    settings = project / "pyproject.toml"
    settings.write_text(f'[tool.cgcheck]\nper-file-ignores = {{"mod*.py" = ["{ALL}"]}}\n')
    assert _rules(project, WRONG) == []
    settings.write_text(f'[tool.cgcheck]\nper-file-ignores = {{"other/" = ["{ALL}"]}}\n')
    assert _rules(project, WRONG) == [ALL]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # cgcheck: ignore[linear-cotangent] -- why\n", "x = 1\n"),
        ("# cgcheck: ignore-file[redundant-rule] -- why\nx = 1\n", "x = 1\n"),
    ],
)
def test_what_suppresses_nothing_is_taken_out(project: Path, before: str, after: str) -> None:
    (project / "model.py").write_text(WRONG + before)
    run = cgcheck("model.py", "--fix", cwd=project)
    assert "1 unused suppression taken out" in run.err
    assert (project / "model.py").read_text() == WRONG + after


def test_of_several_names_the_used_one_stays(project: Path) -> None:
    both = WRONG.replace("(x):", f"(x):  # cgcheck: ignore[{ALL}, redundant-rule] -- why", 1)
    (project / "model.py").write_text(both)
    cgcheck("model.py", "--fix", cwd=project)
    assert f"# cgcheck: ignore[{ALL}] -- why" in (project / "model.py").read_text()
    assert _rules(project, (project / "model.py").read_text()) == []
