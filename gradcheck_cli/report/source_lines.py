"""Lines of the sources that a report is about, as they are and as a repair makes them."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.project.edits import applied


def lines(root: Path, path: str, first: int, last: int) -> list[str]:
    """These lines of a file, counted from one on; empty ones where there are none."""
    file = str(root / path)
    return [linecache.getline(file, number).rstrip("\n") for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that a repair changes together, from a line and a column on: before, and after without blank ones."""

    line: int
    column: int
    old: Sequence[str]
    new: Sequence[str]


def hunks(root: Path, path: str, edits: Sequence[Edit]) -> Iterator[Hunk]:
    """What edits make of the lines of a file; those of the same lines are one change. None of lines that are not there."""
    groups: list[list[Edit]] = []
    for edit in sorted(edits, key=lambda e: (e.line, e.column)):
        if groups and edit.line <= max(e.end_line for e in groups[-1]):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    for group in groups:
        first = group[0].line
        old = lines(root, path, first, max(edit.end_line for edit in group))
        if any(old):
            yield _changed(first, old, group)


def _changed(first: int, old: list[str], group: Sequence[Edit]) -> Hunk:
    here = [replace(e, line=e.line - first + 1, end_line=e.end_line - first + 1) for e in group]
    text = applied("\n".join(old) + "\n", here)
    new = [line for line in text.split("\n") if line.strip()]
    # An edit may end where the next line begins, and leave that as it is.
    while len(old) > 1 and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    return Hunk(first, group[0].column, old, new)
