"""Edits written into a source."""

from __future__ import annotations

import ast
import io
from collections.abc import Sequence

from gradcheck_cli.contract.report import Edit


def lines_of(source: str) -> Sequence[str]:
    """The lines with their ends, as Python counts them: a form feed ends none."""
    return list(io.StringIO(source, newline=""))


def stands_alone(statement: ast.stmt, lines: Sequence[str]) -> bool:
    """Is there nothing else on a statement's lines, a comment neither?"""
    first = lines[statement.lineno - 1].encode()[: statement.col_offset]
    last = lines[(statement.end_lineno or 1) - 1].encode()[statement.end_col_offset :]
    return not first.strip() and not last.strip()


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
