"""A finding's line of source, and the caret under its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradcheck_cli.report.text.caret import source_lines
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
    (alone,) = lines(tmp_path, f"{'x' * 100}\n", width=40, column=60, end_column=90)
    assert alone == source


def test_a_place_without_columns_has_no_caret(tmp_path: Path) -> None:
    assert lines(tmp_path, "x = 1\n") == ["     1 | x = 1"]


def test_a_file_that_is_gone_or_a_line_that_is_empty_shows_nothing(tmp_path: Path) -> None:
    assert lines(tmp_path, "\n") == []
    assert list(source_lines(finding(), tmp_path / "nowhere", 80)) == []
