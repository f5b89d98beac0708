"""Where an expression stands in its file, in lines and columns as reports have them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """From one on, in characters; the end is one beyond."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.expr | ast.stmt | ast.arg, lines: Sequence[str]) -> Span:
        """The place of a node in a file of these lines."""
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        start = _column(lines[node.lineno - 1], node.col_offset)
        return cls(node.lineno, start, end_line, _column(lines[end_line - 1], end))


def _column(line: str, offset: int) -> int:
    """Python counts bytes, an editor characters."""
    return len(line.encode()[:offset].decode(errors="ignore")) + 1
