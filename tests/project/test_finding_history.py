"""Findings of earlier runs, by their ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.worker import AskedPoint
from gradcheck_cli.project.files import named
from gradcheck_cli.project.finding_history import Entry, look_up, remember
from gradcheck_cli.project.settings import Settings


def entry(rule: str) -> Entry:
    return Entry(
        rule=rule, path="a.py", gradient="f", message="", target="a.py:f",
        settings=Settings(points=16, max_time=None), at=[AskedPoint({"x": [1.0]})],
    )  # fmt: skip


def test_an_entry_comes_back_whole_by_the_first_digits_of_its_id(tmp_path: Path) -> None:
    remember({"abcd1": entry("gradient-mismatch"), "abcd2": entry("value-mismatch")}, tmp_path, tmp_path)  # fmt: skip
    remember({"ffff0": entry("worker-crashed")}, tmp_path, tmp_path)
    assert look_up("ABCD2", tmp_path, tmp_path) == ("abcd2", entry("value-mismatch"))
    assert look_up("ffff", tmp_path, tmp_path) == ("ffff0", entry("worker-crashed"))
    with pytest.raises(UsageError, match=r"any of abcd1 \(gradient-mismatch of f\), abcd2"):
        look_up("abcd", tmp_path, tmp_path)
    for unknown in ("abc", "0000"):
        with pytest.raises(UsageError, match="no finding"):
            look_up(unknown, tmp_path, tmp_path)


def test_a_function_is_named_by_what_the_command_line_can_reach() -> None:
    assert named("a.py", "f") == "a.py:f"
    assert named("pkg.mod", "make.<locals>.f") == "pkg.mod:make.f"
    assert named("pkg.mod", "make.<locals>.<lambda>") == "pkg.mod:make"
    assert named("a.py", "<custom_vjp>") == "a.py"
