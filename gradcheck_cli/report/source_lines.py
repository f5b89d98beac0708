"""Lines of the sources that a report is about, as they are and as a repair makes them."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.contract.report import Edit


def lines(root: Path, path: str, first: int, last: int) -> list[str]:
    """These lines of a file, counted from one on; empty ones where there are none."""
    file = str(root / path)
    return [linecache.getline(file, number).rstrip("\n") for number in range(first, last + 1)]


def edited(old: Sequence[str], edit: Edit) -> list[str]:
    """What an edit makes of the lines that it begins and ends in; blank ones are left out."""
    whole = old[0][: edit.column - 1] + edit.text + old[-1][edit.end_column - 1 :]
    return [line for line in whole.split("\n") if line.strip()]
