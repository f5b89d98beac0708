"""`pytest --cgcheck`: what a project's own tests call is checked as they call it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import FIXTURES

pytestmark = [pytest.mark.slow, pytest.mark.needs("torch")]  # each is a whole run


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


# What the report says where each of the tests makes its call.
CALLED = {
    "test_loss": (
        "make_loss.<locals>.loss  WRONG",
        "the formula is wrong: it is 5 times the truth",  # of a batch of five
    ),
    "test_layer": ("Layer.__init__.<locals>.act  CORRECT",),
    "test_times": ("Times  WRONG",),
}


@pytest.mark.parametrize(
    ("flags", "tests"),
    [((), ["test_loss", "test_layer", "test_times"]), (("-n", "2"), ["test_layer", "test_times"])],
    ids=["alone", "xdist"],
)
def test_closures_trees_and_functions_are_checked_as_they_are_called(
    sample: Path, flags: tuple[str, ...], tests: list[str]
) -> None:
    done = pytest_of(sample, "--cgcheck", *flags, "-k", " or ".join(tests))
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{len(tests)} passed" in done.stdout
    assert f"{len(tests)} of {len(tests)} gradients checked" in done.stdout
    for text in [text for test in tests for text in CALLED[test]]:
        assert text in done.stdout


# By its comment, by the settings, and by neither; tests/testing/test_check_gradient.py has the others.
VERDICTS = {"rounded": "INTENDED", "halted": "CORRECT", "wrong": "WRONG"}


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    return shutil.copytree(FIXTURES / "declared", tmp_path / "declared")


@pytest.mark.parametrize(
    ("flags", "names"),
    [((), ["rounded", "halted", "wrong"]), (("-n", "2"), ["rounded", "wrong"])],
    ids=["alone", "xdist"],
)
def test_comments_and_settings_are_read_as_on_the_command_line(
    declared: Path, flags: tuple[str, ...], names: list[str]
) -> None:
    done = pytest_of(declared, "--cgcheck", *flags, "-k", " or ".join(names))
    assert done.returncode == 1, done.stdout + done.stderr
    for name in names:
        assert f"{name}  {VERDICTS[name]}" in done.stdout
    count = len(names)
    assert f"{count} of {count} gradients checked in 1 file: 1 error, 0 warnings" in done.stdout


@pytest.mark.parametrize("flags", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_what_is_not_called_does_not_fail_the_run(declared: Path, flags: tuple[str, ...]) -> None:
    done = pytest_of(declared, "--cgcheck", *flags, "-k", "rounded")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 gradient checked" in done.stdout


def test_settings_that_mean_nothing_stop_the_run(sample: Path) -> None:
    (sample / "pyproject.toml").write_text("[tool.cgcheck]\npiont = 3\n")
    done = pytest_of(sample, "--cgcheck")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "did you mean `points`?" in done.stderr


def test_without_the_option_nothing_happens(declared: Path) -> None:
    done = pytest_of(declared, "-k", "wrong")
    assert done.returncode == 0
    assert "cgcheck" not in done.stdout


def test_a_suite_without_custom_gradients_says_so(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain():\n    assert True\n")
    done = pytest_of(tmp_path, "--cgcheck")
    assert done.returncode == 0
    assert "the tests call none of this project's own" in done.stdout


TRACED = """
    import jax

    def scaled(y):
        @jax.custom_vjp
        def times(x):
            return x * y

        times.defvjp(lambda x: (times(x), None), lambda _, ct: (ct * y,))
        return times(2.0)

    def test_under_jit():
        for _ in range(2):
            assert jax.jit(lambda y: scaled(y))(3.0) == 6.0

    def test_alone():
        assert scaled(3.0) == 6.0
    """


def test_a_rule_that_holds_what_jax_traces_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "test_traced.py").write_text(textwrap.dedent(TRACED))
    done = pytest_of(tmp_path, "--cgcheck")
    assert "2 passed" in done.stdout
    assert "internal-error" not in done.stdout
    assert done.stdout.count("it was made while JAX traced") == 1
    assert "1 of 2 gradients checked" in done.stdout
