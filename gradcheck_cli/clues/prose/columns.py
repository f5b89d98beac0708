"""Entries in two columns, the names in the first: each becomes one with a colon.

rate       rain rate in mm/h, > 0
k, alpha   coefficients of the band
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FEWEST = 2  # rows of one table
_GAP = 2  # blanks between the columns, in one row at least


def with_colons(text: str, names: Sequence[str]) -> str:
    """The text with a colon behind the names of each row, where rows stand in columns."""
    name = "|".join(map(re.escape, names)) or r"(?!)"
    row = re.compile(
        rf"(?P<head>\s*(?:{name})(?:\s?[,/&]\s?(?:{name}))*)(?P<gap>\s+)(?=[^\s:=,.<>≤≥])"
    )
    lines = text.splitlines()
    found = {i: match for i, line in enumerate(lines) if (match := row.match(line)) is not None}
    for rows in _tables(found):
        for i in rows:
            match = found[i]
            lines[i] = f"{match['head']}: {lines[i][match.end() :]}"
    return "\n".join(lines)


def _tables(found: dict[int, re.Match[str]]) -> list[list[int]]:
    """The rows that begin in one column, and go on in one: as many as make a table, and none about what another is about.

    A name that leads several rows is told case by case.
    """
    by_columns: dict[tuple[int, int], list[int]] = {}
    for i, match in found.items():
        indent = len(match["head"]) - len(match["head"].lstrip())
        by_columns.setdefault((indent, match.end()), []).append(i)
    return [
        rows
        for rows in by_columns.values()
        if len(rows) >= _FEWEST
        and any(len(found[i]["gap"]) >= _GAP for i in rows)
        and len({found[i]["head"] for i in rows}) == len(rows)
    ]
