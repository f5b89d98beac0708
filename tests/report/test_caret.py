"""A finding's line of source, and the caret under its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.report.text.caret import difference, source_lines
from tests.reports import finding


def lines(folder: Path, source: str, width: int = 80, **place: Any) -> list[str]:
    (folder / "a.py").write_text(source)
    where = finding(line=1, **place)
    return [text for text, _ in source_lines(where, folder, width)]


def test_the_caret_is_as_long_as_the_name_and_below_it(tmp_path: Path) -> None:
    source, caret = lines(tmp_path, "def triple(x):\n", column=5, end_column=11)
    assert source == "     1 | def triple(x):"
    assert caret == "       |     ^^^^^^"
    assert source[caret.index("^") : caret.rindex("^") + 1] == "triple"


def test_a_line_that_is_too_long_is_cut_and_its_caret_too(tmp_path: Path) -> None:
    source, caret = lines(tmp_path, f"{'x' * 100}\n", width=40, column=21, end_column=90)
    assert (len(source), len(caret)) == (40, 40)
    assert source.endswith("x…")


def test_the_place_is_in_sight_however_long_the_line_is(tmp_path: Path) -> None:
    text = f"{'x' * 59}{'y' * 5}{'z' * 100}"
    source, caret = lines(tmp_path, f"{text}\n", width=40, column=60, end_column=65)
    assert source[caret.index("^") : caret.rindex("^") + 1] == "yyyyy"
    assert len(source) == 40


def test_a_place_that_ends_on_a_later_line_is_marked_to_its_end(tmp_path: Path) -> None:
    source, caret = lines(tmp_path, "y = f(\n)\n", column=5, end_line=2, end_column=2)
    assert source[caret.index("^") :] == "f("


def repaired(folder: Path, source: str, width: int = 80, **place: Any) -> list[str]:
    (folder / "a.py").write_text(source)
    edit = Edit(line=1, end_line=1, text="-g", **place)
    return [text for text, _ in difference(finding(line=1, edits=[edit]), folder, width)]


def test_a_repair_is_shown_as_a_difference(tmp_path: Path) -> None:
    shown = repaired(tmp_path, "return g * d, g * d\n", column=15, end_column=16)
    assert shown == ["     1 - return g * d, g * d", "     1 + return g * d, -g * d"]


def test_edits_of_the_same_lines_are_one_change(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("e = exp(x)\nreturn e / total\nz = 1\n")
    without = Edit(line=1, column=1, end_line=2, end_column=1, text="")
    instead = Edit(line=2, column=8, end_line=2, end_column=17, text="softmax(x)")
    told = finding(line=1, edits=[instead, without])
    shown = [text for text, _ in difference(told, tmp_path, 80)]
    assert shown == [
        "     1 - e = exp(x)",
        "     2 - return e / total",
        "     1 + return softmax(x)",
    ]
    alone = [text for text, _ in difference(finding(line=1, edits=[without]), tmp_path, 80)]
    assert alone == ["     1 - e = exp(x)"]


def test_of_long_lines_a_difference_shows_where_they_differ(tmp_path: Path) -> None:
    before, after = repaired(tmp_path, f"{'x' * 100}g{'x' * 100}\n", 60, column=101, end_column=102)
    assert "xgx" in before
    assert "x-gx" in after
    assert len(before) == len(after) == 60


def test_a_file_that_is_gone_has_no_difference(tmp_path: Path) -> None:
    edit = Edit(line=1, column=1, end_line=1, end_column=2, text="y")
    assert list(difference(finding(edits=[edit]), tmp_path / "nowhere", 80)) == []


def test_a_place_without_columns_has_no_caret(tmp_path: Path) -> None:
    assert lines(tmp_path, "x = 1\n") == ["     1 | x = 1"]


def test_a_file_that_is_gone_or_a_line_that_is_empty_shows_nothing(tmp_path: Path) -> None:
    assert lines(tmp_path, "\n") == []
    assert list(source_lines(finding(), tmp_path / "nowhere", 80)) == []
