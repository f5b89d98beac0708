"""Source lines as a report shows them: the blamed one with a caret, and those of a repair as a difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.report.source_lines import hunks, lines

_MOST = 6  # lines of a difference
_TAB = 4


def source_lines(finding: Finding, root: Path, width: int) -> Iterator[tuple[str, str]]:
    """The line and its caret; nothing if the file cannot be read."""
    (source,) = lines(root, finding.path, finding.line, finding.line)
    if not source.strip():
        return
    gutter = f"{finding.line:>6} | "
    start = _width(source[: finding.column - 1])
    shown, cut = _window(source.expandtabs(_TAB), start, width - len(gutter))
    yield gutter + shown, "dim"
    one_line = finding.end_line in (None, finding.line)
    if finding.end_column and (finding.end_column > finding.column or not one_line):
        marked = source[finding.column - 1 : finding.end_column - 1 if one_line else None]
        room = width - len(gutter) - (start - cut)
        if room > 0:
            yield f"{'':>6} | {'':{start - cut}}{'^' * min(_width(marked), room)}", "bold red"


def difference(finding: Finding, root: Path, width: int) -> Iterator[tuple[str, str]]:
    """The lines that a repair changes, before and after; nothing where they are many."""
    for hunk in hunks(root, finding.path, finding.edits):
        if len(hunk.old) + len(hunk.new) > _MOST:
            continue
        start = _width(hunk.old[0][: hunk.column - 1])
        for sign, side, style in (("-", hunk.old, "red"), ("+", hunk.new, "green")):
            for number, line in enumerate(side, start=hunk.line):
                gutter = f"{number:>6} {sign} "
                yield gutter + _window(line.expandtabs(_TAB), start, width - len(gutter))[0], style


def _width(text: str) -> int:
    """How many columns the text takes at the beginning of a line."""
    return len(text.expandtabs(_TAB))


def _window(line: str, start: int, room: int) -> tuple[str, int]:
    """As much of a line as there is room for, around a column; and how much to the left was left out."""
    if len(line) <= room or start < room * 2 // 3:
        return _ended(line, room), 0
    cut = min(start - room // 3, len(line) - room)
    return "…" + _ended(line[cut + 1 :], room - 1), cut


def _ended(line: str, room: int) -> str:
    """The line, with a sign at its end where that is left out."""
    return line if len(line) <= room else line[: max(room - 1, 0)] + "…"
