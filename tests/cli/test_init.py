"""`cgcheck init`: a project set up, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import cgcheck

MODEL = """import jax
import jax.numpy as jnp


@jax.custom_vjp
def rounded(x):
    return jnp.round(x)


rounded.defvjp(lambda x: (rounded(x), None), lambda _, g: (g,))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def test_settings_hook_and_comments_are_written_once(place: Path) -> None:
    run = cgcheck("init", cwd=place)
    assert run.code == 0
    assert "pyproject.toml: a table [tool.cgcheck]" in run.out
    assert ".pre-commit-config.yaml: a hook" in run.out
    assert "model.py: comments that declare what looks meant: rounded" in run.out
    assert "# cgcheck: expect(surrogate)\n@jax.custom_vjp\n" in (place / "model.py").read_text()
    held = {path: path.read_text() for path in place.iterdir() if path.is_file()}
    again = cgcheck("init", cwd=place)
    assert again.code == 0
    assert "pyproject.toml: has it already" in again.out
    assert {path: path.read_text() for path in place.iterdir() if path.is_file()} == held


def test_a_difference_writes_nothing(place: Path) -> None:
    run = cgcheck("init", "--diff", cwd=place)
    assert run.code == 0
    assert "+[tool.cgcheck]" in run.out
    assert "+# cgcheck: expect(surrogate)" in run.out
    assert "1 of 1 gradient checked" in run.err
    assert sorted(path.name for path in place.iterdir()) == [".git", "model.py"]


def test_without_a_repository_there_is_no_hook_and_without_a_check_no_comment(
    tmp_path: Path,
) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    (tmp_path / "model.py").write_text(MODEL)
    run = cgcheck("init", "--no-check", cwd=tmp_path)
    assert run.code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.py", "pyproject.toml"]
    assert (tmp_path / "model.py").read_text() == MODEL
    assert "next: cgcheck ." in run.out


def test_line_ends_stay_and_what_cannot_be_read_is_said(place: Path) -> None:
    (place / "pyproject.toml").write_bytes(b"[project]\r\nname = 'a'\r\n")
    assert cgcheck("init", "--no-check", cwd=place).code == 0
    assert b"\r\n\r\n[tool.cgcheck]\r\n" in (place / "pyproject.toml").read_bytes()
    (place / "pyproject.toml").write_bytes(b"# caf\xe9\n")
    run = cgcheck("init", "--no-check", cwd=place)
    assert run.code == 0
    assert "pyproject.toml: left alone" in run.out
