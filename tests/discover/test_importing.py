"""A file is imported as what it is: a module of its package, or a script under a name of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gradcheck_cli.discover.importing import home, import_file, module_name


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """The import system as it stood before."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def package(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, source in {"__init__": "", **files}.items():
        (folder / f"{name}.py").write_text(source)
    return folder


def test_a_module_of_a_package_has_its_dotted_name(tmp_path: Path) -> None:
    inner = package(package(tmp_path / "outer_room") / "inner_room")
    assert module_name(inner / "rule.py") == (tmp_path, "outer_room.inner_room.rule")
    assert module_name(inner / "__init__.py") == (tmp_path, "outer_room.inner_room")
    assert module_name(tmp_path / "script.py") == (tmp_path, "script")


def test_relative_imports_work(tmp_path: Path) -> None:
    room = package(tmp_path / "room_of_rules", near="one = 1\n", rule="from .near import one\n")
    assert import_file(room / "rule.py").one == 1


def test_a_script_that_is_named_like_a_library_is_itself(tmp_path: Path) -> None:
    file = tmp_path / "json.py"
    file.write_text("mine = True\n")
    module = import_file(file)
    assert (module.mine, module.__name__) == (True, "_cgcheck_json")


def test_functions_that_a_package_shows_are_looked_for_where_they_are_defined(
    tmp_path: Path,
) -> None:
    room = package(tmp_path / "shown_room", inner="def rule(x):\n    return x\n")
    (room / "__init__.py").write_text("from .inner import rule\nelse_ = 1\n")
    shown = import_file(room / "__init__.py")
    assert home(shown, ["rule"]).__name__ == "shown_room.inner"
    assert home(shown, ["else_"]) is shown


def test_what_comes_from_another_package_stays_where_it_is_shown() -> None:
    module = ModuleType("mine")
    vars(module)["dumps"] = json.dumps
    assert home(module, ["dumps"]) is module


@pytest.mark.parametrize(("folder", "name"), [("rooms_of_none", "rooms_of_none"), ("json", "_cgcheck_json"), ("a-room.2", "a_room_2")])  # fmt: skip
def test_relative_imports_work_in_folders_that_are_no_packages(
    tmp_path: Path, folder: str, name: str
) -> None:
    room = tmp_path / folder
    (room / "inner").mkdir(parents=True)
    (room / "near.py").write_text("one = 1\n")
    (room / "rule.py").write_text("from .near import one\n")
    (room / "inner" / "rule.py").write_text("from ..near import one\n")
    module = import_file(room / "rule.py")
    assert (module.one, module.__name__) == (1, f"{name}.rule")
    assert import_file(room / "inner" / "rule.py").one == 1
    other = tmp_path / "other" / folder
    other.mkdir(parents=True)
    (other / "near.py").write_text("one = 2\n")
    (other / "rule.py").write_text("from .near import one\n")
    assert import_file(other / "rule.py").one == 2


def test_a_file_that_is_no_python_says_so_itself(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("from . import (\n")
    with pytest.raises(SyntaxError):
        import_file(tmp_path / "broken.py")
