"""The tuples that a function's text returns."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradcheck_cli.clues.source_text.tree import text_of


def returned_tuples(function: Callable[..., Any]) -> Iterator[ast.Tuple]:
    """Each tuple that stands behind a `return`, or that a lambda gives."""
    text = text_of(function)
    yield from _tuples(text.statements if text else ())


def returned_inside(function: Callable[..., Any]) -> Iterator[ast.Tuple]:
    """Each tuple that a rule gives which the function defines, and returns beside its value: `return value, grad`."""
    text = text_of(function)
    lines = text.statements if text else ()
    names = {t.elts[1].id for t in _tuples(lines) if len(t.elts) == 2 and isinstance(t.elts[1], ast.Name)}  # fmt: skip
    rules = (n for line in lines for n in ast.walk(line) if isinstance(n, ast.FunctionDef))
    yield from (each for rule in rules if rule.name in names for each in _tuples(rule.body))


def _tuples(lines: Iterable[ast.stmt]) -> Iterator[ast.Tuple]:
    for node in (n for line in lines for n in ast.walk(line)):
        value = node.value if isinstance(node, ast.Return) else None
        value = node.body if isinstance(node, ast.Lambda) else value
        if isinstance(value, ast.Tuple):
            yield value
