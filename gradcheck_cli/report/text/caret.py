"""The source line with a caret under the name."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path

from gradcheck_cli.contract.report import Finding


def source_lines(finding: Finding, root: Path, width: int) -> Iterator[tuple[str, str]]:
    """The line and its caret; nothing if the file cannot be read."""
    source = linecache.getline(str(root / finding.path), finding.line).rstrip("\n").expandtabs(4)
    if not source.strip():
        return
    gutter = f"{finding.line:>6} | "
    yield gutter + source[: width - len(gutter)], "dim"
    if finding.end_column and finding.end_column > finding.column:
        start, count = finding.column - 1, finding.end_column - finding.column
        room = width - len(gutter) - start
        if room > 0:
            yield f"{'':>6} | {'':{start}}{'^' * min(count, room)}", "bold red"
