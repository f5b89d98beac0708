"""What sources of a project said of themselves when they were last read: files that define nothing are not read again.

A file is known again by its path, its size, the times of its last change and its place on the disk; one that changed just now is
not kept. What it uses of other files is looked at each time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from gradcheck_cli.lint import vocabulary
from gradcheck_cli.lint.vocabulary import computes
from gradcheck_cli.project import skimming
from gradcheck_cli.project.cache_folder import drop, held, keep
from gradcheck_cli.project.real_paths import real
from gradcheck_cli.run.state import digest, state_of

_MOST_STATES = 4  # of cgcheck, whose cache files are kept
_MOST = 100_000  # files that are remembered: of more, the oldest go
_MARK = "cgcheck"  # of comments that say something to us
_TICK = 2_000_000_000  # nanoseconds: what has changed since then may change again at the same time


class Skim(msgspec.Struct, array_like=True, frozen=True):
    """One file as it was."""

    state: tuple[
        int, int, int, int
    ]  # when it was changed, in two ways, its size, its place on the disk
    root: str  # from which its modules are imported
    content: str  # its name
    speaks: bool  # to us, in a comment perhaps
    computes: bool  # something that the linter could tell of
    words: skimming.Words

    def says_something(self, path: Path) -> bool:
        """Is there anything in it that could make a custom gradient, or a comment for us?"""
        return self.speaks or self.words.may_define(path)


def skim_of(path: Path, source: str) -> Skim | None:
    """A file with its text as it is now; nothing where it is no longer there."""
    try:
        found, data = path.stat(), path.read_bytes()
    except OSError:
        return None
    words = skimming.words_of(source, path)
    return Skim(_state(found), _root(path), digest(data), _MARK in source, computes(source), words)


class Skims:
    """The files of earlier runs, loaded when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "skims" / f"{state_of(_parts())}.msgpack"
        self._begun = time.time_ns() - _TICK
        self._new: dict[str, Skim] = {}
        self._held: dict[str, Skim] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self._held = msgspec.msgpack.decode(self._path.read_bytes(), type=dict[str, Skim])

    def get(self, path: Path) -> Skim | None:
        """The file, if it is as it was."""
        known = self._held.get(real(path))
        if known is None:
            return None
        try:
            found = os.stat(path)  # noqa: PTH116 — half of the price
        except OSError:
            return None
        same = _state(found) == known.state and _root(path) == known.root
        return known if same else None

    def put(self, path: Path, source: str) -> Skim | None:
        """The file as it is now, with its text."""
        skim = skim_of(path, source)
        if skim is not None and skim.state[0] < self._begun:
            self._new[real(path)] = skim
        return skim

    def save(self) -> None:
        """Write what is new beside what was there."""
        if self._new:
            kept = list({**self._held, **self._new}.items())[-_MOST:]
            keep(self._path, msgspec.msgpack.encode(dict(kept)))
            drop(path for path, _ in list(held(self._path.parent))[_MOST_STATES:])


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _root(path: Path) -> str:
    return str(skimming.root_of(path.parent))


def _parts() -> Iterator[Path]:
    """The files that a skim rests on."""
    yield Path(__file__)
    yield Path(vocabulary.__file__)
    yield from Path(skimming.__file__).parent.glob("*.py")
