"""The folder of what is kept between runs, and its parts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

COMPILED = "compiled"
# The folders in it, each with what it holds.
PARTS = {
    "results": "what checks found",
    "lint": "what the linter said",
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
    return {part: sum(_sizes(home() / part)) for part in PARTS}


def clear() -> int:
    """Remove all parts, and nothing else that may lie beside them; so many bytes they had."""
    freed = sum(sizes().values())
    for part in PARTS:
        shutil.rmtree(home() / part, ignore_errors=True)
    return freed


def _sizes(place: Path) -> Iterator[int]:
    for path in place.rglob("*"):
        with suppress(OSError):  # another run may have removed it
            if path.is_file():
                yield path.stat().st_size
