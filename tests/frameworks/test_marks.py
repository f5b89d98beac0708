"""The table of frameworks is the one place that lists them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from gradcheck_cli.frameworks import marks
from gradcheck_cli.words import Tool

ROOT = Path(__file__).parents[2]


def test_every_row_has_a_folder_and_every_folder_a_row() -> None:
    folders = (ROOT / "gradcheck_cli/frameworks").glob("*/framework.py")
    assert {file.parent.name for file in folders} == marks.NAMES


def test_a_backend_is_a_framework() -> None:
    assert set(marks.Backend) <= marks.NAMES


def test_a_report_has_a_field_for_the_version_of_each() -> None:
    assert set(Tool.__struct_fields__) - {"name", "version"} == marks.NAMES


def test_all_but_the_default_are_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) - {"dev"} == marks.NAMES - {marks.DEFAULT}


def test_a_plain_function_is_offered_to_the_default_last() -> None:
    assert marks.ASKED[-1] == marks.DEFAULT
    assert set(marks.ASKED) == set(marks.WATCHED)


def test_no_other_file_of_the_command_line_lists_frameworks() -> None:
    """A new framework is a folder and a row: nobody else knows the names of two of them."""
    package = ROOT / "gradcheck_cli"
    listing = []
    for file in [*package.glob("*.py"), *package.glob("cli/*.py"), *package.glob("runner/*.py")]:
        text = file.read_text(encoding="utf-8")
        if sum(f'"{name}"' in text for name in marks.NAMES) > 1:
            listing.append(file.name)
    assert listing == []
