"""What is kept of the calls that are seen: each way once, as few as are used later."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gradcheck_cli.contract.recorded import FloatArg, PlainArg
from gradcheck_cli.inputs.signature import Parameter
from gradcheck_cli.project import recorded_calls
from gradcheck_cli.record import watch
from gradcheck_cli.record.in_process import _Watcher
from gradcheck_cli.subject.protocol import CustomGradient

Note = Callable[[object, tuple[Any, ...], dict[str, Any]], None]


def gradient(path: str = "/home/user/model.py", qualname: str = "f") -> CustomGradient:
    place = SimpleNamespace(path=path, qualname=qualname)
    parameters = [Parameter(name, k, True, False) for k, name in enumerate("xn")]
    fake = SimpleNamespace(place=place, name=qualname, parameters=lambda: parameters)
    return cast(CustomGradient, fake)


class Fake:
    """A framework to which every function is one custom gradient."""

    def __init__(self, path: str) -> None:
        self.path = path

    def named(self, *_: object) -> CustomGradient:
        return gradient(self.path)

    @contextmanager
    def watching(self, note: Note) -> Iterator[None]:
        self.note = note
        yield


def noting(
    monkeypatch: pytest.MonkeyPatch, path: str, signatures: int
) -> tuple[watch.Recorder, Note, list[Mapping[str, Any]]]:
    heard: list[Mapping[str, Any]] = []
    framework = Fake(path)
    monkeypatch.setattr(watch, "WATCHED", ["numpy"])
    monkeypatch.setattr(watch, "load", lambda name: framework)
    recorder = watch.Recorder(signatures, lambda _, arguments: heard.append(arguments))
    recorder.watch()
    recorder.watch()  # asked again at every test: nothing is watched twice
    return recorder, framework.note, heard


def f(x: Any, n: int) -> None:
    """The watched function."""


def test_each_way_to_call_is_heard_of_once_and_only_so_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder, note, heard = noting(monkeypatch, "/home/user/model.py", 2)
    note(f, (np.ones(3), 2), {})
    note(f, (np.zeros(3),), {"n": 2})
    note(f, (np.ones(4), 2), {})
    note(f, (np.ones(5), 2), {})
    note(f, (), {"other": 1})  # no call of it
    note(f, (1.0, 2), {})  # no array in it
    assert [np.shape(arguments["x"]) for arguments in heard] == [(3,), (4,)]
    (called,) = recorder.stop()
    assert (len(called.signatures), called.calls) == (2, 6)


def test_of_each_choice_of_options_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, note, heard = noting(monkeypatch, "/home/user/model.py", 4)
    recorder.of_options = 1
    for size, option in ((3, 2), (4, 2), (5, 2), (3, 7), (4, 7), (3, 9), (3, 11), (3, 13)):
        note(f, (np.ones(size), option), {})
    assert [(np.shape(a["x"]), a["n"]) for a in heard] == [
        ((3,), 2), ((3,), 7), ((3,), 9), ((3,), 11),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["", "/env/lib/site-packages/lib/a.py"])
def test_what_is_not_the_users_is_left_alone(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, note, heard = noting(monkeypatch, path, 2)
    note(f, (np.ones(3), 2), {})
    assert heard == []
    assert recorder.stop() == []


def test_objects_of_one_definition_share_what_is_written(tmp_path: Path) -> None:
    watcher = _Watcher(tmp_path)
    for size in (1, 2, 2, 3, 4, 5):
        watcher.write(gradient(), {"x": np.arange(size, dtype=np.float32), "n": 2})
    calls = recorded_calls.load(tmp_path / f"{os.getpid()}.json")
    assert list(calls) == ["/home/user/model.py:f"]
    shapes = [cast(FloatArg, call.arguments["x"]).shape for call in calls["/home/user/model.py:f"]]
    assert shapes == [[1], [2], [3], [4]]
    assert calls["/home/user/model.py:f"][0].arguments["n"] == PlainArg(value=2)
