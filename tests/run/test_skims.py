"""Files that define nothing are known again, and read again as soon as they may define something."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradcheck_cli.project import skimming
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run import tasks
from gradcheck_cli.run.skims import Skims
from gradcheck_cli.run.target_file import File
from tests.conftest import RIGHT

USING = "from compat import deco\n\n\n@deco\ndef f(x): ...\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "project"


def write(folder: Path, name: str, source: str, *, at: int = 1_000_000_000) -> None:
    """A file that was changed long ago; one of this moment is not remembered."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(source)
    os.utime(folder / name, (at, at))


def read(folder: Path, name: str = "a.py") -> File:
    """What a run learns of a file that it meets in a folder, with what earlier ones have left."""
    skims = Skims(folder.parent / "cache")
    reader = tasks.TargetReader(Settings(), folder, skims=skims)
    file = reader.read(Target(folder / name, None, explicit=False))
    skims.save()
    return file


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def text_of(path: Path, display: str) -> str:
        raise AssertionError(path)

    monkeypatch.setattr(tasks, "text_of", text_of)


@pytest.mark.parametrize(("source", "computes"), [("x = 1\n", False), ("import numpy\n", True)])
def test_a_file_without_a_word_is_not_read_again(
    source: str, computes: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "a.py", source)
    before = read(folder)
    forbid_reading(monkeypatch)
    assert read(folder) == before
    there = folder / "a.py" if computes else None
    assert (before.tasks, before.skimmed, before.source) == ([], True, there)


@pytest.mark.parametrize("source", [RIGHT, "x = 1  # cgcheck: ignore[nan] -- as it is\n"])
def test_what_has_something_to_say_is_read_each_time(
    folder: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "a.py", source)
    read(folder)
    forbid_reading(monkeypatch)
    with pytest.raises(AssertionError):
        read(folder)


def test_another_time_or_size_is_another_file(folder: Path) -> None:
    write(folder, "a.py", "x = 1\n")
    read(folder)
    write(folder, "a.py", RIGHT)
    assert len(read(folder).tasks) == 1
    write(folder, "a.py", "#" * (len(RIGHT) - 1) + "\n", at=2_000_000_000)
    assert read(folder).tasks == []


def test_a_name_that_comes_to_lead_to_a_word_is_followed_each_time(folder: Path) -> None:
    write(folder, "a.py", USING)
    write(folder, "compat.py", "def deco(f):\n    return f\n")
    assert read(folder).tasks == []
    write(folder, "compat.py", "import jax\n\ndeco = jax.custom_vjp\n")
    skimming.forget()  # as in another run
    assert len(read(folder).tasks) == 1


def test_what_a_name_leads_to_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "a.py", USING)
    write(folder, "compat.py", "import functools\n\ndeco = functools.cache\n")
    before = read(folder)

    def said_by(path: Path) -> skimming.Said:
        raise AssertionError(path)

    monkeypatch.setattr(skimming, "said_by", said_by)
    assert read(folder) == before
    write(folder, "compat.py", "deco = 1\n", at=2_000_000_000)
    with pytest.raises(AssertionError):
        read(folder)


def test_what_changed_just_now_may_change_again_at_the_same_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    read(folder)
    (folder / "a.py").write_text("x = 2\n")
    forbid_reading(monkeypatch)
    with pytest.raises(AssertionError):
        read(folder)


def test_settings_for_a_path_hold_for_what_is_not_read(folder: Path) -> None:
    write(folder, "a.py", "x = 1\n")
    read(folder)
    settings = Settings(per_file_ignores={"a.py": ["stability"]})
    reader = tasks.TargetReader(settings, folder, skims=Skims(folder.parent / "cache"))
    file = reader.read(Target(folder / "a.py", None, explicit=False))
    assert [ignore.rules for ignore in file.ignores] == [("stability",)]


def test_a_package_that_becomes_one_has_other_names(folder: Path) -> None:
    (folder / "pk").mkdir(parents=True)
    write(folder / "pk", "base.py", "import torch\n\n\nclass Base(torch.autograd.Function): ...\n")
    write(folder / "pk", "a.py", "from .base import Base\n\n\nclass Mine(Base): ...\n")
    before = len(read(folder, "pk/a.py").tasks)
    write(folder / "pk", "__init__.py", "")
    skimming.forget()  # as in another run
    assert len(read(folder, "pk/a.py").tasks) == before == 1


def test_a_file_that_was_given_its_old_time_is_another_one(folder: Path) -> None:
    write(folder, "a.py", RIGHT.replace("custom_gradient", "custom_gradienx"))
    assert read(folder).tasks == []
    write(folder, "a.py", RIGHT)
    assert len(read(folder).tasks) == 1
