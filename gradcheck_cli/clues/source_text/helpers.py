"""Functions beside one that it calls by their names, and what it hands them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType

from gradcheck_cli.clues.source_text.statements import nodes_of
from gradcheck_cli.clues.source_text.tree import Text, text_of


def helpers(text: Text) -> Iterator[tuple[Text, dict[str, str]]]:
    """The text of each such function, and by its own names those that it is handed: `w` for `_mean(x, w)`."""
    for node in nodes_of([text]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            helper = text.surroundings.get(node.func.id)
            told = text_of(helper) if isinstance(helper, FunctionType) else None
            if told is not None:
                pairs = zip(told.parameters, node.args, strict=False)
                yield told, {own: a.id for own, a in pairs if isinstance(a, ast.Name)}
