"""What checks found before: a file is not checked again while all that the answer rests on is as it was.

An answer belongs to one task (the file, its settings, its comments and recorded calls), the folder in which cgcheck was
started, and one state of cgcheck, Python, the installed packages and the machine. Beside these it holds as long as each
file that was read on the way has the same content (modules of the project, data), what was not there is still not
there, each folder that was listed has the same names in it, variables of the environment that were asked for have the
same values, and the same files of the project use this one.

Only whole answers are kept: where a worker died, ran out of time, or met what it could not import, it is asked again,
and so is what runs on a GPU. Each answer is a file of its own, written as a whole or not at all, so runs can share a
folder. What cannot be read or written is no answer.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gradcheck_cli.contract.worker import (
    FileFinding,
    Finished,
    Reads,
    Task,
    Users,
    decode_event,
)
from gradcheck_cli.project import rule_pages
from gradcheck_cli.project.cache_folder import drop, held, keep
from gradcheck_cli.project.reads import ALL
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.users import Sources
from gradcheck_cli.run.durations import Durations
from gradcheck_cli.run.state import digest, state_of, surroundings
from gradcheck_cli.workers.pool import End, WorkerEnd

_MOST_BYTES = 256 * 2**20  # of all answers: of more, those go that were not asked for the longest
_ENCODER = msgspec.msgpack.Encoder()


class _Content(msgspec.Struct, frozen=True):
    """A file as it was read: where size and time are the same, it is not read again."""

    path: str
    size: int
    time: int
    digest: str


class _Answer(msgspec.Struct, frozen=True):
    """What a worker said, and what that rests on."""

    events: list[bytes]
    contents: list[_Content]
    missing: list[str]
    listed: dict[str, list[str] | None]
    variables: dict[str, str | None]
    absent: list[str]
    folders: list[str]
    users: list[tuple[Users, list[str]]]


class ResultCache:
    """Answers in one folder; `begun` is when this run began: what changed since then was perhaps not what was read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begun = time.time_ns()
        self._grew = False
        self._projects: dict[str, Sources] = {}
        self._now: dict[str, str] = {}  # digests of files as they are
        self.durations = Durations(folder)

    @functools.cached_property
    def _state(self) -> bytes:
        """What all answers rest on; a run that has nothing to check does not ask for it."""
        return digest(state_of(_parts()).encode(), surroundings().encode()).encode()

    def get(self, task: Task) -> WorkerEnd | None:
        """How the worker of this task ended before, if that still holds."""
        if not _is_kept(task):
            return None
        try:
            path = self._path(task)
            answer = msgspec.msgpack.decode(path.read_bytes(), type=_Answer)
            events = tuple(map(decode_event, answer.events))
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
        if not self._holds(answer):
            return None
        with suppress(OSError):
            os.utime(path)  # it was asked for
        return WorkerEnd(End.FINISHED, events, None, 0, 0.0)

    def put(self, task: Task, end: WorkerEnd) -> None:
        """Keep how a worker ended, if it can be asked for again, and how long it took."""
        self.durations.note(task, end)
        reads = _reads(end)
        if reads is None or task.skip or task.alone is not None or not _is_kept(task):
            return
        contents = [content for file in reads.files if (content := self._content(file)) is not None]
        events = [_ENCODER.encode(e) for e in end.events]
        users = [(asked, self._users(asked)) for asked in reads.users]
        changed = [path for _, found in users for path in found if self._content(path) is None]
        if len(contents) < len(reads.files) or changed:
            return
        listed = {place: _names_in(place) for place in reads.listed}
        variables = {name: _variable(name) for name in reads.variables}
        answer = _Answer(
            events, contents, reads.missing, listed, variables, reads.absent, reads.folders, users
        )
        with suppress(ValueError):  # a name that is no text
            keep(self._path(task), _ENCODER.encode(answer))
            self._grew = True

    def tidy(self) -> None:
        """Remove the oldest answers, where all together have become too many."""
        self.durations.save()
        files = list(held(self._folder)) if self._grew else []
        totals = itertools.accumulate(status.st_size for _, status in files)
        drop(path for (path, _), total in zip(files, totals, strict=True) if total > _MOST_BYTES)

    def _path(self, task: Task) -> Path:
        name = digest(self._state, os.fsencode(Path.cwd()), _ENCODER.encode(task))
        return self._folder / name[:2] / f"{name[2:]}.msgpack"

    def _holds(self, answer: _Answer) -> bool:
        return (
            all(map(self._is_same, answer.contents))
            and not any(map(os.path.exists, answer.missing))
            and all(_variable(name) == value for name, value in answer.variables.items())
            and all(_names_in(place) == names for place, names in answer.listed.items())
            and not any(_is_there(name, answer.folders) for name in answer.absent)
            and all(self._users(asked) == found for asked, found in answer.users)
        )

    def _is_same(self, content: _Content) -> bool:
        try:
            found = Path(content.path).stat()
        except OSError:
            return False
        if (found.st_size, found.st_mtime_ns) == (content.size, content.time):
            return True
        return found.st_size == content.size and self._digest(content.path) == content.digest

    def _digest(self, path: str) -> str:
        if path not in self._now:
            try:
                self._now[path] = digest(Path(path).read_bytes())
            except OSError:
                return ""
        return self._now[path]

    def _content(self, path: str) -> _Content | None:
        """The file as it is; None if it changed since the run began."""
        try:
            found = Path(path).stat()
        except OSError:
            return None
        if found.st_mtime_ns >= self._begun:
            return None
        return _Content(path, found.st_size, found.st_mtime_ns, self._digest(path))

    def _users(self, asked: Users) -> list[str]:
        project = self._projects.setdefault(asked.root, Sources(Path(asked.root)))
        return [str(path) for path in project.users(Path(asked.home), set(asked.names))]


def _reads(end: WorkerEnd) -> Reads | None:
    """What the worker read, if it came to its end with a whole answer."""
    last = end.events[-1] if end.events else None
    whole = end.end is End.FINISHED and isinstance(last, Finished) and not last.out_of_time
    told = (event.finding for event in end.events if isinstance(event, FileFinding))
    if not whole or any(find(finding.rule).could_not_check for finding in told):
        return None
    return last.reads if isinstance(last, Finished) else None


def _is_kept(task: Task) -> bool:
    """Is it of the processor alone? Of GPUs there are more kinds than are told apart here."""
    return task.device != "gpu"


def _variable(name: str) -> str | None:
    """The value of a variable; a name for all values where all were asked for."""
    if name == ALL:
        return digest(*(os.fsencode(f"{k}={v}") for k, v in sorted(os.environ.items())))
    return os.environ.get(name)


def _names_in(folder: str) -> list[str] | None:
    """What is in a folder; None if it cannot be listed."""
    try:
        return sorted(entry.name for entry in Path(folder).iterdir())
    except OSError:
        return None


def _is_there(module: str, folders: Sequence[str]) -> bool:
    """Is a module of this name in one of the folders by now?"""
    place = module.replace(".", os.sep)
    return any(Path(f, place).is_dir() or Path(f, f"{place}.py").is_file() for f in folders)


def _parts() -> Iterable[Path]:
    """The files that cgcheck is made of."""
    yield from Path(__file__).parent.parent.rglob("*.py")
    yield from rule_pages.folder().glob("*/*.md")
