"""What to do about a module that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradcheck_cli.check.missing_module import missing
from tests.check.fakes import TASK


@pytest.fixture
def package(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a package in src/, and a script beside it."""
    (project / "pyproject.toml").touch()
    folder = project / "src" / "pendulums"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "swings.py").touch()
    monkeypatch.chdir(project)
    return folder


def said(name: str, project: Path) -> str:
    return missing(name, replace(TASK, path=str(project / "scripts" / "run.py")))


def test_what_nobody_has_is_to_be_installed(project: Path) -> None:
    assert said("nowhere.part", project).endswith(
        "is not installed here: pip install nowhere, or name it in `optional-imports`"
    )


def test_a_slip_of_the_pen_is_seen(project: Path) -> None:
    assert "is `pytest` meant?" in said("pytesst", project)


def test_a_package_of_the_project_is_not_to_be_had_from_elsewhere(
    project: Path, package: Path
) -> None:
    told = said("pendulums.swings", project)
    assert "though it is in src" in told and "`PYTHONPATH=src`" in told
    assert "pip install pendulums" not in told


def test_a_module_that_a_package_lacks_is_told_with_the_nearest(
    project: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(project / "src")
    told = said("pendulums.swing", project)
    assert f"which the package `pendulums` in {Path('src/pendulums')} does not have" in told
    assert told.endswith("did you mean `pendulums.swings`?")


def test_an_error_without_a_name_speaks_for_itself(project: Path) -> None:
    assert said("", project) == ""


def test_a_namespace_of_the_project_is_known_by_what_is_in_it(project: Path, package: Path) -> None:
    (project / "src" / "acme" / "tool").mkdir(parents=True)
    (project / "src" / "acme" / "tool" / "x.py").touch()
    assert "though it is in src" in said("acme.tool", project)


def test_a_folder_that_is_called_as_a_framework_is_none(
    project: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fixtures/tensorflow/` is no TensorFlow, where that is not installed."""
    (project / "scripts" / "tensorflow").mkdir(parents=True)
    (project / "scripts" / "tensorflow" / "right.py").touch()
    monkeypatch.setattr("gradcheck_cli.check.missing_module._places", lambda package: ())
    assert "pip install tensorflow" in said("tensorflow", project)
