"""Where an expression stands in its file."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Lines and columns as reports have them: from one on, the end one beyond."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.expr | ast.stmt) -> Span:
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return cls(node.lineno, node.col_offset + 1, end_line, end + 1)
