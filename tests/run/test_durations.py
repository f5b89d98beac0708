"""How long files took before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gradcheck_cli.contract.worker import Kind, Mark, Task
from gradcheck_cli.project.files import resolve
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run import session, work
from gradcheck_cli.run.durations import Durations
from gradcheck_cli.workers.pool import End, Heard, WorkerEnd
from tests.conftest import WRONG
from tests.reports import task

MARK = Mark(name="f", line=1, framework="jax", kind="custom_vjp")


def ended(seconds: float, end: End = End.FINISHED) -> WorkerEnd:
    return WorkerEnd(end, (), None, 0, seconds)


def test_what_took_long_is_known_the_next_time(tmp_path: Path) -> None:
    first = Durations(tmp_path)
    first.note(task("slow.py"), ended(90.0))
    first.note(task("slow.py", backend="jax"), ended(9.0))
    first.save()
    again = Durations(tmp_path)
    assert again.expected(task("slow.py")) == 90.0
    assert again.expected(task("slow.py", backend="jax")) == 9.0


def test_files_that_are_no_more_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stays.py").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    first = Durations(tmp_path / "kept")
    for name in ("stays.py", "goes.py"):
        first.note(replace(task(name), root=str(tmp_path)), ended(90.0))
    first.save()
    second = Durations(tmp_path / "kept")
    second.note(replace(task("new.py"), root=str(tmp_path)), ended(9.0))
    second.save()
    known = Durations(tmp_path / "kept")
    assert known.expected(task("stays.py")) == 90.0
    assert known.expected(task("goes.py")) < 90.0


def test_more_gradients_are_expected_to_take_longer(tmp_path: Path) -> None:
    known = Durations(tmp_path)
    one, three = (task(marked={"jax": [MARK] * count}) for count in (1, 3))
    assert known.expected(one) < known.expected(three)


def test_what_was_cut_off_or_a_rest_says_nothing(tmp_path: Path) -> None:
    known = Durations(tmp_path)
    known.note(task(), ended(90.0, End.INTERRUPTED))
    known.note(task(skip=["f"]), ended(90.0))
    known.save()
    assert Durations(tmp_path).expected(task()) < 90.0


def test_a_file_that_is_none_of_ours_counts_as_none(tmp_path: Path) -> None:
    known = Durations(tmp_path)
    known.note(task(), ended(90.0))
    known.save()
    for file in tmp_path.iterdir():
        file.write_text("[1, 2]")
    assert Durations(tmp_path).expected(task()) < 90.0


class Listener:
    """A crew that does nothing, and hears in which order it is to do it."""

    shares = 1

    def __init__(self) -> None:
        self.heard: list[str] = []

    def expect(self, kind: Kind) -> None: ...

    def run(self, kind: Kind, tasks: Sequence[Task], heard: Heard) -> list[WorkerEnd]:
        self.heard += [task.display for task in tasks]
        ends = [ended(1.0) for _ in tasks]
        for each, end in zip(tasks, ends, strict=True):
            heard(each, end)
        return ends

    def close(self) -> None: ...


def test_the_longest_begin_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    monkeypatch.setattr(work, "crew", lambda settings: listener)
    targets = []
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(WRONG)
        targets += resolve([str(tmp_path / name)], [])
    before = Durations(tmp_path / "kept")
    before.note(task("b.py"), ended(90.0))
    before.note(task("c.py"), ended(10.0))
    before.save()
    run = session.Session(Settings(), tmp_path, results=tmp_path / "kept")
    report = run.run(targets, lambda display, event: None).report
    assert listener.heard == ["b.py", "c.py", "a.py"]
    assert [f.path for f in report.findings] == sorted(f.path for f in report.findings)
