"""What differs from a commit, and what imports it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.project.changed_files import (
    LAST_COMMIT,
    changed_since,
    sources_of,
    with_importers,
)

SOURCES = {
    "pkg/__init__.py": "",
    "pkg/ops.py": "def relu(x): ...\n",
    "pkg/layer.py": "from .ops import relu\n",
    "pkg/model.py": "from pkg import layer\n",
    "pkg/other.py": "import json\n",
    "train.py": "import pkg.model\n",
    "broken.py": "def (\n",
}


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    return tmp_path


def names(folder: Path, files: set[Path]) -> set[str]:
    return {file.relative_to(folder.resolve()).as_posix() for file in files}


def test_what_differs_and_what_git_does_not_know_yet(repository: Path) -> None:
    assert changed_since(LAST_COMMIT, repository) == set()
    (repository / "pkg" / "ops.py").write_text("def relu(x): return x\n")
    (repository / "pkg" / "é new.py").write_text("")
    (repository / "train.py").unlink()
    changed = changed_since(LAST_COMMIT, repository / "pkg")
    assert names(repository, changed) == {"pkg/ops.py", "pkg/é new.py", "train.py"}


def test_what_imports_a_changed_file_by_however_many_steps(repository: Path) -> None:
    files = [repository / name for name in SOURCES]
    reached = with_importers({(repository / "pkg/ops.py").resolve()}, files)
    assert names(repository, reached) == {"pkg/ops.py", "pkg/layer.py", "pkg/model.py", "train.py"}


def test_a_package_is_what_stands_in_its_init(repository: Path) -> None:
    files = [repository / name for name in SOURCES]
    reached = with_importers({(repository / "pkg/__init__.py").resolve()}, files)
    assert {"train.py", "pkg/layer.py"} <= names(repository, reached)
    assert "pkg/other.py" not in names(repository, reached)


def test_what_imports_a_file_that_is_gone(repository: Path) -> None:
    (repository / "pkg" / "ops.py").unlink()
    reached = with_importers(changed_since(LAST_COMMIT, repository), sources_of(repository))
    assert names(repository, reached) >= {"pkg/layer.py", "pkg/model.py", "train.py"}


def test_folders_without_an_init_are_packages_too(repository: Path) -> None:
    for name, text in (("ns/a.py", ""), ("ns/b.py", "from ns.a import f\n")):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text)
    reached = with_importers({(repository / "ns/a.py").resolve()}, sources_of(repository))
    assert names(repository, reached) == {"ns/a.py", "ns/b.py"}


@pytest.mark.parametrize("revision", ["nowhere", "--output=x"])
def test_what_is_no_revision_is_refused(repository: Path, revision: str) -> None:
    with pytest.raises(UsageError):
        changed_since(revision, repository)


def test_a_folder_without_a_repository_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="it says"):
        changed_since(LAST_COMMIT, tmp_path)
