"""How a report is to look: what a format may need beside the report itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Look:
    """`root` is where sources are read for carets; a machine format needs none of it."""

    root: Path
    color: bool = False
    verbose: bool = False
    quiet: bool = False  # only what is not right
    width: int | None = None  # the terminal's, if none is given
