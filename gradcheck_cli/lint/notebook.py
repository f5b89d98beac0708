"""A notebook as one module: its code cells in their order, so that what one imports another knows.

Cells that are no Python (`%%bash`, another kernel's) are left out; lines for the shell or for IPython are blank.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding

_FOR_THE_SHELL = ("%", "!", "?")


@dataclass(frozen=True, slots=True)
class Notebook:
    """The source of all cells, and where each begins: the lines before it, and its number among all cells."""

    source: str
    cells: Sequence[tuple[int, int]]

    def placed(self, finding: Finding) -> Finding:
        """A finding of the source at its place in its cell; what would rewrite the source is left out."""
        before, number = max(cell for cell in self.cells if cell[0] < finding.line)
        end = finding.end_line
        return replace(
            finding, path=f"{finding.path}:cell {number}", line=finding.line - before,
            end_line=None if end is None else end - before, edits=[],
        )  # fmt: skip


def notebook(text: str) -> Notebook:
    """Read one; raises `ValueError` for what is none."""
    cells = _cells(json.loads(text))
    if cells is None:
        raise ValueError("it has no cells")
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for number, cell in enumerate(cells, start=1):
        source = _python(cell) if isinstance(cell, dict) else None
        if source is not None:
            places.append((len(lines), number))
            lines += source.split("\n")
    return Notebook("\n".join(lines) + "\n", places or [(0, 1)])


def _cells(read: Any) -> list[Any] | None:
    cells = read.get("cells") if isinstance(read, dict) else None
    return cells if isinstance(cells, list) else None


def _python(cell: dict[str, Any]) -> str | None:
    """The source of a code cell, if it parses without what is for the shell."""
    if cell.get("cell_type") != "code":
        return None
    written = cell.get("source", "")
    text = "".join(map(str, written)) if isinstance(written, list) else str(written)
    kept = ["" if line.lstrip().startswith(_FOR_THE_SHELL) else line for line in text.split("\n")]
    source = "\n".join(kept)
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return source
