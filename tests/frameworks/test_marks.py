"""The table of frameworks is the one place that lists them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from gradcheck_cli.contract.report import Tool
from gradcheck_cli.project import framework_marks

ROOT = Path(__file__).parents[2]


def test_every_row_has_a_folder_and_every_folder_a_row() -> None:
    folders = (ROOT / "gradcheck_cli/frameworks").glob("*/framework.py")
    assert {file.parent.name for file in folders} == framework_marks.NAMES


def test_a_backend_is_a_framework() -> None:
    assert set(framework_marks.Backend) <= framework_marks.NAMES


def test_a_report_has_a_field_for_the_version_of_each() -> None:
    assert set(Tool.__struct_fields__) - {"name", "version"} == framework_marks.NAMES


def test_all_but_the_default_are_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) - {
        "cluster",
        "dev",
        "editor",
        "test",
        "html",
        "site",
        "triton",
        "watch",
    } == framework_marks.NAMES - {framework_marks.DEFAULT}


def test_a_plain_function_is_offered_to_the_default_last() -> None:
    assert framework_marks.ASKED[-1] == framework_marks.DEFAULT
    assert set(framework_marks.ASKED) == set(framework_marks.WATCHED)


def test_no_other_file_of_the_command_line_lists_frameworks() -> None:
    """A new framework is a folder and a row: nobody else knows the names of two of them."""
    package = ROOT / "gradcheck_cli"
    listing = []
    for file in (
        f
        for room in ("cli", "run", "workers", "record", "testing")
        for f in package.glob(f"{room}/*.py")
    ):
        text = file.read_text(encoding="utf-8")
        if sum(f'"{name}"' in text for name in framework_marks.NAMES) > 1:
            listing.append(file.name)
    assert listing == []
