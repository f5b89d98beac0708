"""What a process reads on its way."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradcheck_cli.contract.worker import Reads, Users
from gradcheck_cli.project import reads
from gradcheck_cli.project.users import users


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    reads.begin()
    yield
    reads.end()


def ended(but: str | None = None) -> Reads:
    found = reads.end(but)
    assert found is not None
    return found


def test_files_that_are_read_and_not_those_that_are_written(tmp_path: Path) -> None:
    (tmp_path / "written.txt").write_text("1")
    (tmp_path / "read.txt").write_text("2")
    (tmp_path / "read.txt").read_text()
    (tmp_path / "read.txt").read_bytes()
    found = {f for f in ended().files if f.startswith(str(tmp_path))}
    assert found == {str(tmp_path / "read.txt")}


def test_what_is_gone_or_lies_in_the_folder_that_is_left_out(tmp_path: Path) -> None:
    for name in ("gone.txt", "kept/inside.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
        (tmp_path / name).read_text()
    (tmp_path / "gone.txt").unlink()
    assert not any(f.startswith(str(tmp_path)) for f in ended(str(tmp_path / "kept")).files)


def test_modules_of_the_project_but_none_that_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "read_on_the_way.py").write_text("import colorsys\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("read_on_the_way")
    with pytest.raises(ImportError):
        importlib.import_module("not_there.at_all")
    found = ended()
    assert str(tmp_path / "read_on_the_way.py") in found.files
    assert not {json.__file__, pytest.__file__} & set(found.files)
    assert {"not_there"} <= set(found.absent)
    assert "colorsys" not in found.absent
    assert str(tmp_path) in found.folders


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKED_FOR", "1")
    reads.begin()
    assert os.environ["ASKED_FOR"] == "1"
    assert os.getenv("NOT_SET") is None
    assert "ALSO_ASKED" not in os.environ
    assert ended().variables == ["ALSO_ASKED", "ASKED_FOR", "NOT_SET"]


def test_a_program_is_looked_for_in_bytes_too() -> None:
    assert os.get_exec_path(os.environ)
    assert all(isinstance(name, str) for name in ended().variables)


def test_the_whole_environment() -> None:
    assert dict(os.environ)
    assert reads.ALL in ended().variables


def test_folders_that_are_listed_but_not_to_find_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("data", "code"):
        (tmp_path / name).mkdir()
    (tmp_path / "code" / "listed_on_the_way.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "code")
    reads.begin()
    assert list((tmp_path / "data").glob("*.csv")) == []
    importlib.import_module("listed_on_the_way")
    assert [f for f in ended().listed if f.startswith(str(tmp_path))] == [str(tmp_path / "data")]


def test_the_package_that_is_looked_at_counts_though_it_is_installed() -> None:
    found = reads.end(target=pytest.__file__)
    assert found is not None
    assert pytest.__file__ in found.files
    assert json.__file__ not in found.files


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        (tmp_path / "settings.json").read_text()
    assert str(tmp_path / "settings.json") in ended().missing


def test_looking_through_a_project_is_a_question_and_no_reading(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def f(x): ...\n")
    (tmp_path / "test_model.py").write_text("from model import f\n")
    found = list(users(tmp_path / "model.py", tmp_path, {"f"}))
    assert found == [tmp_path / "test_model.py"]
    told = ended()
    assert not any(f.startswith(str(tmp_path)) for f in told.files)
    assert told.users == [Users(home=str(tmp_path / "model.py"), root=str(tmp_path), names=["f"])]


def test_nobody_listens() -> None:
    reads.end()
    assert reads.end() is None
