"""How long each file took before: the longest begin first, so that at the end no worker is alone with one."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from gradcheck_cli.contract.worker import Task
from gradcheck_cli.project.cache_folder import keep
from gradcheck_cli.run.state import digest
from gradcheck_cli.workers.pool import End, WorkerEnd

_BETWEEN = "::"  # the parts of a name, of which a file's is the first
_OF_A_GRADIENT = 3.0  # seconds, where nothing is known


class Durations:
    """Seconds of the files of one project, by what is shown of them and their backend; kept in a file of a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{digest(os.fsencode(Path.cwd()))}.durations"
        self._before = _read(self._path)
        self._now: dict[str, float] = {}
        self._root: Path | None = None  # what the names of files are relative to, once one is known

    def expected(self, task: Task) -> float:
        """The seconds of the last time, or a guess by how many gradients there are."""
        gradients = max(1, sum(len(marks) for marks in task.marked.values()))
        return self._before.get(_name(task), _OF_A_GRADIENT * gradients)

    def note(self, task: Task, end: WorkerEnd) -> None:
        """So long it took; what is only the rest of a file does not count."""
        if end.end is not End.INTERRUPTED and not task.skip and task.alone is None:
            self._now[_name(task)] = round(end.seconds, 1)
            self._root = Path(task.root)

    def _is_there(self, name: str) -> bool:
        return self._root is None or (self._root / name.split(_BETWEEN, maxsplit=1)[0]).exists()

    def save(self) -> None:
        """Keep what is new of it, and forget the files that are no more."""
        if self._now:
            known = {name: s for name, s in self._before.items() if self._is_there(name)}
            keep(self._path, msgspec.json.encode(known | self._now, order="sorted"))


def _name(task: Task) -> str:
    functions = ",".join(task.functions)
    return _BETWEEN.join(filter(None, (task.display, functions, task.backend)))


def _read(path: Path) -> dict[str, float]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except (OSError, msgspec.MsgspecError):
        return {}
