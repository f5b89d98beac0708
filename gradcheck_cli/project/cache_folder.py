"""The folder of what is kept between runs, and its parts."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

COMPILED = "compiled"
# The folders in it, each with what it holds.
PARTS = {
    "results": "what checks found",
    "lint": "what the linter said",
    "skims": "which files define nothing",
    COMPILED: "compiled code",
    "findings": "findings that `cgcheck replay` runs again",
    "sweeps": "sweeps, also those that go on later",
}


def home() -> Path:
    """The user's cache folder, by the conventions of the platform."""
    if chosen := os.environ.get("CGCHECK_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "cgcheck"


def folder() -> str:
    """Where compiled code is kept."""
    return str(home() / COMPILED)


def sizes() -> dict[str, int]:
    """How many bytes each part has."""
    return {part: sum(status.st_size for _, status in held(home() / part)) for part in PARTS}


def clear() -> int:
    """Remove all parts, and nothing else that may lie beside them; so many bytes they had."""
    freed = sum(sizes().values())
    for part in PARTS:
        shutil.rmtree(home() / part, ignore_errors=True)
    return freed


def held(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Each file under a folder of the cache, the latest first; other runs may add some, and remove some."""
    there: list[tuple[Path, os.stat_result]] = []
    for path in place.rglob("*"):
        with suppress(OSError):
            if path.is_file():
                there.append((path, path.stat()))
    yield from sorted(there, key=lambda each: -each[1].st_mtime_ns)


def keep(path: Path, data: bytes) -> None:
    """Write a file of the cache, as a whole or not at all; where that cannot be done there is none."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".kept-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)


def drop(paths: Iterable[Path]) -> None:
    """Remove files of the cache, as far as that can be done."""
    with suppress(OSError):
        for path in paths:
            path.unlink(missing_ok=True)
