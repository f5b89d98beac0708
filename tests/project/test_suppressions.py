"""Suppressions for a line, a file, a path; those that suppress nothing can be taken out."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.project.comments import WHOLE_FILE, Ignore
from gradcheck_cli.project.suppressions import Filter, Unused, without_unused
from tests.conftest import WRONG, cgcheck, check_json
from tests.reports import finding

ALL = "gradient-mismatch"
ON_LINE = Ignore(3, 3, (ALL,), "known")
IN_FILE = Ignore(1, WHOLE_FILE, ("CG101",), "known")


@pytest.mark.parametrize(
    ("ignores", "line", "kept"),
    [
        ([], 3, 1),
        ([ON_LINE], 3, 0),
        ([ON_LINE], 4, 1),
        ([IN_FILE], 4, 0),
        ([ON_LINE, IN_FILE], 9, 0),
    ],
)
def test_a_comment_suppresses_on_its_line_or_in_its_file(
    ignores: list[Ignore], line: int, kept: int
) -> None:
    assert len(Filter.of([], []).keep([finding(ALL, line)], ignores)) == kept


@pytest.mark.parametrize(
    ("select", "ignore", "rule", "shown"),
    [
        ([], [], ALL, True),
        ([ALL], [], ALL, True),
        (["CG101"], [], ALL, True),
        (["gradient"], [], ALL, True),
        (["stability"], [], ALL, False),
        ([], ["gradient"], ALL, False),
        (["gradient"], [ALL], ALL, False),
        (["gradient"], [], "syntax-error", True),
        ([], ["syntax-error"], "syntax-error", False),
        (["gradient"], ["internal-error"], "internal-error", True),
    ],
)
def test_rules_are_chosen_by_name_code_and_family(
    select: list[str], ignore: list[str], rule: str, shown: bool
) -> None:
    assert Filter.of(select, ignore).selects(rule) is shown


def test_of_two_comments_for_one_finding_the_second_is_unused() -> None:
    unused = Filter.of([], []).unused([ON_LINE, IN_FILE], [finding(ALL, 3)], "a.py")
    assert unused == [Unused("a.py", 1, "CG101")]


@pytest.mark.parametrize(
    ("line", "gone", "left"),
    [
        ("x = 1  # cgcheck: ignore[a] -- why", {"a"}, ["x = 1"]),
        ("# cgcheck: ignore-file[a] -- why", {"a"}, []),
        ("x = 1  # cgcheck: ignore[a, b] -- why", {"a"}, ["x = 1  # cgcheck: ignore[b] -- why"]),
        ("x = 1  # another comment", {"a"}, ["x = 1  # another comment"]),
    ],
)
def test_unused_names_are_taken_out_of_their_line(
    line: str, gone: set[str], left: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text(f"first\n{line}\nlast\n")
    count = without_unused([Unused("a.py", 2, name) for name in gone], tmp_path)
    assert count == (line != "".join(left))
    assert (tmp_path / "a.py").read_text().splitlines() == ["first", *left, "last"]


def _rules(project: Path, source: str, *args: str) -> list[str]:
    (project / "model.py").write_text(source)
    return [r for r in check_json("model.py", *args, cwd=project).rules() if r in (ALL, "unused-ignore")]  # fmt: skip


@pytest.mark.slow
def test_a_comment_for_the_whole_file(project: Path) -> None:
    assert _rules(project, WRONG) == [ALL]
    assert _rules(project, f"# cgcheck: ignore-file[{ALL}] -- meant\n{WRONG}") == []


@pytest.mark.slow
def test_paths_in_the_settings(project: Path) -> None:
    settings = project / "pyproject.toml"
    settings.write_text(f'[tool.cgcheck]\nper-file-ignores = {{"mod*.py" = ["{ALL}"]}}\n')
    assert _rules(project, WRONG) == []
    settings.write_text(f'[tool.cgcheck]\nper-file-ignores = {{"other/" = ["{ALL}"]}}\n')
    assert _rules(project, WRONG) == [ALL]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # cgcheck: ignore[nonlinear-cotangent] -- why\n", "x = 1\n"),
        ("# cgcheck: ignore-file[nonlinear-cotangent] -- why\nx = 1\n", "x = 1\n"),
    ],
)
def test_what_suppresses_nothing_is_taken_out(project: Path, before: str, after: str) -> None:
    (project / "model.py").write_text(WRONG + before)
    run = cgcheck("model.py", "--fix", cwd=project)
    assert "1 unused suppression taken out" in run.err
    repaired = WRONG.replace("2 * ct", "3 * ct")
    assert (project / "model.py").read_text() == repaired + after


@pytest.mark.slow
def test_of_several_names_the_used_one_stays(project: Path) -> None:
    both = WRONG.replace("(x):", f"(x):  # cgcheck: ignore[{ALL}, redundant-rule] -- why", 1)
    (project / "model.py").write_text(both)
    cgcheck("model.py", "--fix", cwd=project)
    assert f"# cgcheck: ignore[{ALL}] -- why" in (project / "model.py").read_text()
    assert _rules(project, (project / "model.py").read_text()) == []


def test_lines_keep_their_ends_and_their_encoding(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\r\nx = 'é'\f\r\ny = 1  # cgcheck: ignore[value-mismatch] -- why\r\n"
    (tmp_path / "a.py").write_bytes(text.encode("latin-1"))
    assert without_unused([Unused("a.py", 3, "value-mismatch")], tmp_path) == 1
    after = text.replace("  # cgcheck: ignore[value-mismatch] -- why", "")
    assert (tmp_path / "a.py").read_bytes() == after.encode("latin-1")
