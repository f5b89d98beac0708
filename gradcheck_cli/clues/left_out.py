"""Integers whose places do not count: the parameters that a text compares a table with, one by one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.tree import text_of

_COMPARES = frozenset({"eq", "ne", "equal", "not_equal"})


def left_out(functions: Sequence[Callable[..., Any]], names: Collection[str]) -> frozenset[str]:
    """As `void` in `labels != void` and `ops.not_equal(labels, void)`: whatever has no value of its own there."""
    texts = (text for text in map(text_of, functions) if text is not None)
    nodes = (node for text in texts for top in text.statements for node in ast.walk(top))
    pairs = [pair for node in nodes for pair in _pairs(node)]
    found = {right.id for _, right in pairs if isinstance(right, ast.Name)}
    return frozenset(found & set(names))


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is compared with what, for equality; both ways, but nothing that is a constant."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        sides = [node.left, node.comparators[0]]
    elif isinstance(node, ast.Call) and len(node.args) == 2 and _named(node.func) in _COMPARES:
        sides = node.args
    else:
        return
    if not any(_is_constant(side) for side in sides):
        yield sides[0], sides[1]
        yield sides[1], sides[0]


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _named(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))
