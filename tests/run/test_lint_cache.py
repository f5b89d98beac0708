"""What the linter said before, by content: used while source and linter are the same, and never else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run import linting, state
from gradcheck_cli.run.lint_cache import LintCache

NAIVE = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.log(1 + jnp.exp(x))\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "naive.py").write_text(NAIVE)
    return tmp_path


def rules(project: Path, cache: Path) -> list[list[str]]:
    read = linting.lint_files([str(project)], Settings(), project, LintCache(cache))
    return [[f.rule for f in file.findings] for file in read]


def test_what_has_not_changed_is_not_read_again(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    assert rules(project, cache) == [["naive-softplus"]]

    def read(work: tuple[str, str]) -> linting.Read:
        raise AssertionError(work)

    monkeypatch.setattr(linting, "_read_file", read)
    assert rules(project, cache) == [["naive-softplus"]]


def test_another_content_is_another_source(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    rules(project, cache)
    (project / "naive.py").write_text("x = 1\n")
    assert rules(project, cache) == [[]]
    (project / "naive.py").write_text(NAIVE)
    assert rules(project, cache) == [["naive-softplus"]]


def test_another_linter_knows_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    rules(project, cache)
    monkeypatch.setattr(state, "__version__", "another")
    monkeypatch.setattr(linting, "_read_file", lambda work: linting.Read(work[1], ()))
    assert rules(project, cache) == [[]]


@pytest.mark.parametrize("data", [b"", b"no cache at all", b"\x81\xa1a\xc4\x01a"])
def test_a_cache_that_cannot_be_read_is_none(project: Path, tmp_path: Path, data: bytes) -> None:
    cache = tmp_path / "cache"
    rules(project, cache)
    (file,) = (cache / "lint").iterdir()
    file.write_bytes(data)
    assert rules(project, cache) == [["naive-softplus"]]


def test_a_folder_that_cannot_be_written_costs_nothing(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("a file stands where the folder would")
    assert rules(project, cache) == [["naive-softplus"]]


def test_a_file_that_is_saved_in_between_is_kept_as_what_was_read(
    project: Path, tmp_path: Path
) -> None:
    file, cache = project / "naive.py", LintCache(tmp_path / "cache")
    before = state.digest(file.read_bytes())
    file.write_text("x = 1\n")  # after its content was named, before the linter reads it
    (read,) = linting.read_files([(str(file), "naive.py")], cache, {str(file): before})
    assert read.findings == ()
    file.write_text(NAIVE)
    assert rules(project, tmp_path / "cache") == [["naive-softplus"]]
