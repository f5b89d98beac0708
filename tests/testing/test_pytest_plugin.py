"""`pytest --cgcheck`: what a project's own tests call is checked as they call it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import FIXTURES

pytestmark = pytest.mark.slow  # each is a whole run


def pytest_of(project: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags]
    return subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    project = tmp_path / "sample"
    shutil.copytree(FIXTURES / "plugin", project)
    (project / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    return project


@pytest.mark.parametrize("flags", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_closures_trees_and_functions_are_checked_as_they_are_called(
    sample: Path, flags: tuple[str, ...]
) -> None:
    done = pytest_of(sample, "--cgcheck", *flags)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert "3 of 3 gradients checked" in done.stdout
    assert "make_loss.<locals>.loss  WRONG" in done.stdout
    assert "the formula is wrong: it is 5 times the truth" in done.stdout  # of a batch of five
    assert "Layer.__init__.<locals>.act  CORRECT" in done.stdout
    assert "Times  WRONG" in done.stdout


VERDICTS = {
    "rounded": "INTENDED",
    "entropy": "CORRECT",
    "cubed": "INTENDED",
    "bent": "CORRECT",
    "halted": "CORRECT",
    "wrong": "WRONG",
}


@pytest.mark.parametrize("flags", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_comments_and_settings_are_read_as_on_the_command_line(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    project = shutil.copytree(FIXTURES / "declared", tmp_path / "declared")
    done = pytest_of(project, "--cgcheck", *flags)
    assert done.returncode == 1, done.stdout + done.stderr
    for name, verdict in VERDICTS.items():
        assert f"{name}  {verdict}" in done.stdout
    assert "6 of 6 gradients checked in 1 file: 1 error, 0 warnings" in done.stdout
    deselected = pytest_of(project, "--cgcheck", *flags, "-k", "not wrong")
    assert deselected.returncode == 0, deselected.stdout + deselected.stderr


def test_settings_that_mean_nothing_stop_the_run(sample: Path) -> None:
    (sample / "pyproject.toml").write_text("[tool.cgcheck]\npiont = 3\n")
    done = pytest_of(sample, "--cgcheck")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "did you mean `points`?" in done.stderr


def test_without_the_option_nothing_happens(sample: Path) -> None:
    done = pytest_of(sample)
    assert done.returncode == 0
    assert "cgcheck" not in done.stdout


def test_a_suite_without_custom_gradients_says_so(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    assert True\n")
    done = pytest_of(tmp_path, "--cgcheck")
    assert done.returncode == 0
    assert "the tests call none of this project's own" in done.stdout
