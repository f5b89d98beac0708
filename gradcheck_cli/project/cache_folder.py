"""Where compiled code is kept between runs, and what the linter said. What was checked is computed anew each time."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def folder() -> str:
    """The user's cache folder, by the conventions of the platform."""
    if chosen := os.environ.get("CGCHECK_CACHE_DIR"):
        return str(Path(chosen) / "compiled")
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return str(base / "cgcheck" / "compiled")
