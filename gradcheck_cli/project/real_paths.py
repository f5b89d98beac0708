"""Paths without links, for many files: what is true of a file or a folder is asked once."""

from __future__ import annotations

import functools
import os
from pathlib import Path


def real(path: str | Path) -> str:
    """The path of a file itself, whatever links lead to it."""
    text = os.fspath(path)
    if text.startswith(os.sep):
        return _real(text)
    return _real(os.path.join(os.getcwd(), text))  # noqa: PTH109, PTH118 — a `Path` of each costs more than the question


@functools.lru_cache(maxsize=32768)  # each file of a run is asked for a few times
def _real(text: str) -> str:
    folder, name = os.path.split(text)
    if name in ("", ".", "..") or os.path.islink(text):  # noqa: PTH114
        return os.path.realpath(text)
    return os.path.join(_real_folder(folder), name)  # noqa: PTH118


def below(path: str | Path, root: str) -> str | None:
    """A file's path from a folder on, with slashes; none where it lies elsewhere. The folder is without links."""
    own, start = real(path), root if root.endswith(os.sep) else root + os.sep
    return own[len(start) :].replace(os.sep, "/") if own.startswith(start) else None


def forget() -> None:
    """Ask all of it anew: a later run in the same process may meet other links."""
    _real.cache_clear()
    _real_folder.cache_clear()


@functools.lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)
