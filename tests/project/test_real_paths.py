"""Paths without links, as the system gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.project.real_paths import below, real


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "real" / "sub" / "a.py").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "b.py").symlink_to("sub/a.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "path", ["real/sub/a.py", "link/sub/a.py", "link/b.py", "./link/../real/b.py", "link", ".", "real/sub/..", "nowhere/x.py"]
)  # fmt: skip
def test_a_path_is_what_the_system_says(tree: Path, path: str) -> None:
    assert real(path) == str(Path(path).resolve())
    assert real(tree / path) == str((tree / path).resolve())


def test_it_follows_the_folder_that_one_is_in(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert real("a.py") == str(tree / "a.py")
    monkeypatch.chdir(tree / "real" / "sub")
    assert real("a.py") == str(tree / "real" / "sub" / "a.py")


def test_a_path_from_a_folder_on(tree: Path) -> None:
    assert below("link/b.py", str(tree)) == "real/sub/a.py"
    assert below("link/b.py", "/") == str(tree / "real" / "sub" / "a.py").lstrip("/")
    assert below("link/b.py", str(tree / "re")) is None
