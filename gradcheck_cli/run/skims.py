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


# When a file was changed, in two ways, its size, its place on the disk.
_State = tuple[int, int, int, int]


class Skim(msgspec.Struct, array_like=True, frozen=True):
    """One file as it was."""

    state: _State
    root: str  # from which its modules are imported
    content: str  # its name
    speaks: bool  # to us, in a comment perhaps
    computes: bool  # something that the linter could tell of
    words: skimming.Words

    def says_something(self, path: Path, leads: skimming.Leads) -> bool:
        """Is there anything in it that could make a custom gradient, or a comment for us?"""
        return self.speaks or self.words.may_define(path, leads)


class Lead(msgspec.Struct, array_like=True, frozen=True):
    """One file that others lead to, as it was."""

    state: _State
    root: str
    said: skimming.Said


class Kept(msgspec.Struct, array_like=True, frozen=True):
    """All that is remembered of files, by their paths."""

    skims: dict[str, Skim] = {}
    leads: dict[str, Lead] = {}


def _skim_of(path: Path, source: str) -> Skim | None:
    """A file with its text as it is now; nothing where it is no longer there."""
    try:
        found, data = path.stat(), path.read_bytes()
    except OSError:
        return None
    words = skimming.words_of(source, path)
    return Skim(_state(found), _root(path), digest(data), _MARK in source, computes(source), words)


class Skims:
    """The files of earlier runs, where a folder keeps them; else what this run reads, and nothing is kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = None
        if folder is not None:
            self._path = folder / "skims" / f"{state_of(_parts())}.msgpack"
        self.leads = skimming.Leads(self._said_by)
        self._begun = time.time_ns() - _TICK
        self._new, self._held = Kept({}, {}), Kept()
        if self._path is not None:
            with suppress(OSError, msgspec.MsgspecError):
                self._held = msgspec.msgpack.decode(self._path.read_bytes(), type=Kept)

    @property
    def are_kept(self) -> bool:
        """Will a later run know the files again?"""
        return self._path is not None

    def get(self, path: Path) -> Skim | None:
        """The file, if it is as it was."""
        known = self._held.skims.get(real(path))
        return known if known is not None and _is_as_it_was(path, known) else None

    def put(self, path: Path, source: str) -> Skim | None:
        """The file as it is now, with its text."""
        skim = _skim_of(path, source)
        if skim is not None and skim.state[0] < self._begun:
            self._new.skims[real(path)] = skim
        return skim

    def _said_by(self, path: Path) -> skimming.Said:
        """What stands in a file that others lead to; it is read if it is not as it was."""
        known = self._held.leads.get(str(path))
        if known is not None and _is_as_it_was(path, known):
            return known.said
        try:
            state = _state(path.stat())
        except OSError:
            return skimming.said_by(path)
        said = skimming.said_by(path)
        if state[0] < self._begun:
            self._new.leads[str(path)] = Lead(state, _root(path), said)
        return said

    def save(self) -> None:
        """Write what is new beside what was there."""
        if self._path is not None and (self._new.skims or self._new.leads):
            skims = list({**self._held.skims, **self._new.skims}.items())[-_MOST:]
            leads = list({**self._held.leads, **self._new.leads}.items())[-_MOST:]
            keep(self._path, msgspec.msgpack.encode(Kept(dict(skims), dict(leads))))
            drop(path for path, _ in list(held(self._path.parent))[_MOST_STATES:])


def _is_as_it_was(path: Path, known: Skim | Lead) -> bool:
    try:
        found = os.stat(path)  # noqa: PTH116 — half of the price
    except OSError:
        return False
    return _state(found) == known.state and _root(path) == known.root


def _state(found: os.stat_result) -> _State:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _root(path: Path) -> str:
    return str(skimming.root_of(path.parent))


def _parts() -> Iterator[Path]:
    """The files that a skim rests on."""
    yield Path(__file__)
    yield Path(vocabulary.__file__)
    yield from Path(skimming.__file__).parent.glob("*.py")
