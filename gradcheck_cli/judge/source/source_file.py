"""A user's file, and edits of it: in place of an expression, behind it, on a line of its own before a statement."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.judge.source.rule_text import Function
from gradcheck_cli.judge.source.span import Span
from gradcheck_cli.project.edits import applied


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source, and edits of it."""

    lines: Sequence[str]

    @classmethod
    def of(cls, path: str) -> SourceFile:
        return cls(linecache.getlines(path))

    def edit(self, node: ast.expr | ast.arg, text: str) -> Edit:
        """The text in place of an expression, or of a parameter."""
        span = Span.of(node, self.lines)
        return Edit(
            line=span.line, column=span.column, end_line=span.end_line,
            end_column=span.end_column, text=text,
        )  # fmt: skip

    def parses_with(self, edits: Sequence[Edit]) -> bool:
        """Is it Python, once these are made?"""
        try:
            compile(applied("".join(self.lines), edits), "", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True

    def text(self, node: ast.expr) -> str:
        return ast.get_source_segment("".join(self.lines), node) or ast.unparse(node)

    def after(self, node: ast.expr, text: str) -> Edit:
        """The text behind an expression."""
        span = Span.of(node, self.lines)
        return inserted(span.end_line, span.end_column, text)

    def one_more(self, several: ast.Tuple, text: str) -> Edit:
        """The text behind the last of several, or behind the comma of a single one."""
        last = several.elts[-1]
        span = Span.of(last, self.lines)
        rest = self.lines[span.end_line - 1][span.end_column - 1 :]
        if len(several.elts) == 1 and rest.startswith(","):
            return inserted(span.end_line, span.end_column + 1, f" {text}")
        return self.after(last, f", {text}")

    def before(self, statement: ast.stmt, text: str) -> Edit:
        """A line of its own before a statement."""
        line = self.lines[statement.lineno - 1]
        indent = line[: len(line) - len(line.lstrip())]
        return inserted(statement.lineno, 1, f"{indent}{text}\n")


def inserted(line: int, column: int, text: str) -> Edit:
    return Edit(line=line, column=column, end_line=line, end_column=column, text=text)


def first_statement(function: ast.FunctionDef) -> ast.stmt:
    """The first statement behind the docstring."""
    return function.body[
        1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0
    ]


def method_beside(method: Function, name: str, file: SourceFile) -> ast.FunctionDef | None:
    """Another method of the class in which one stands."""
    module = ast.parse("".join(file.lines))
    for owner in (n for n in ast.walk(module) if isinstance(n, ast.ClassDef)):
        if any(isinstance(n, ast.FunctionDef) and n.lineno == method.lineno for n in owner.body):
            return next(
                (n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == name), None
            )
    return None
