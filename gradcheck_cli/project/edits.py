"""Edits written into a source."""

from __future__ import annotations

import io
from collections.abc import Sequence

from gradcheck_cli.contract.report import Edit


def lines_of(source: str) -> Sequence[str]:
    """The lines with their ends, as Python counts them: a form feed ends none."""
    return list(io.StringIO(source, newline=""))


def applied(source: str, edits: Sequence[Edit]) -> str:
    """The source with these written into it, the last place first."""
    starts = [0]
    for line in lines_of(source):
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return min(starts[min(line, len(starts)) - 1] + column - 1, len(source))

    ending = "\r\n" if "\r\n" in source else "\n"
    for edit in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        start, end = place(edit.line, edit.column), place(edit.end_line, edit.end_column)
        source = source[:start] + edit.text.replace("\n", ending) + source[end:]
    return source
