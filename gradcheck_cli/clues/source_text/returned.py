"""The tuples that a function's text returns."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from gradcheck_cli.clues.source_text.tree import text_of


def returned_tuples(function: Callable[..., Any]) -> Iterator[ast.Tuple]:
    """Each tuple that stands behind a `return`, or that a lambda gives."""
    text = text_of(function)
    for node in (n for line in (text.statements if text else ()) for n in ast.walk(line)):
        value = node.value if isinstance(node, ast.Return) else None
        value = node.body if isinstance(node, ast.Lambda) else value
        if isinstance(value, ast.Tuple):
            yield value
