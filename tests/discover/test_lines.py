"""Lines of definitions and of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradcheck_cli.discover.lines import definition, header_end, raised_at, shown
from gradcheck_cli.subject.results import Place

SOURCE = """import functools


@functools.cache
@functools.wraps(print)
def rule(
    x,
    y,
):
    return x


class Kept:
    pass
triple = lambda x: 3 * x
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "model.py"
    file.write_text(SOURCE)
    return str(file)


def test_a_name_stands_below_its_decorators(path: str) -> None:
    assert definition(path, Place(path, 4, "Owner.rule")) == (6, 5, 9)
    assert definition(path, Place(path, 13, "Kept")) == (13, 7, 11)


def test_what_has_no_def_is_its_whole_line(path: str) -> None:
    assert definition(path, Place(path, 15, "triple")) == (15, 1, 25)


def test_a_header_ends_at_its_colon(path: str) -> None:
    assert header_end(path, 6) == 9
    assert header_end(path, 13) == 13


def test_an_error_is_told_at_the_last_line_of_the_file_itself(tmp_path: Path) -> None:
    file = tmp_path / "raises.py"
    file.write_text("import json\n\n\njson.loads('{')\n")
    with pytest.raises(ValueError, match="Expecting") as raised:
        exec(compile(file.read_text(), str(file), "exec"), {})
    assert raised_at(raised.value, str(file)) == 4
    assert raised_at(raised.value, "another.py") == 1


def test_a_syntax_error_knows_its_line() -> None:
    with pytest.raises(SyntaxError) as raised:
        compile("x = 1\ny = (\n", "model.py", "exec")
    assert raised_at(raised.value, "model.py") == 2


def test_a_file_is_shown_below_the_project_or_its_package(tmp_path: Path) -> None:
    assert shown(str(tmp_path / "src/model.py"), str(tmp_path)) == "src/model.py"
    installed = tmp_path / "lib/site-packages/flax/core.py"
    assert shown(str(installed), "/elsewhere") == "flax/core.py"
    assert shown(json.__file__, str(tmp_path)) == "json/__init__.py"
