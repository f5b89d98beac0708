"""The nodes of texts, and what their statements give names to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from gradcheck_cli.clues.source_text.tree import Text


def nodes_of(texts: Iterable[Text]) -> list[ast.AST]:
    """All nodes of all statements."""
    return [node for text in texts for top in text.statements for node in ast.walk(top)]


def given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement gives a value, each with its own; none where `a, b = b, a` gives one that of another."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if len(names) == len(targets) == len(values):
                pairs = list(zip(names, values, strict=True))
                if not any(_uses_another(name, value, names) for name, value in pairs):
                    yield from pairs


def _uses_another(name: str, value: ast.expr, names: Sequence[str]) -> bool:
    """Does a value rest on another of the names that are given one beside it, or stand for several?"""
    used = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
    return isinstance(value, ast.Starred) or bool(used & set(names) - {name})


def given_once(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """The names that are given one value, by as many statements as there are, and what that is."""
    values: dict[str, dict[str, ast.expr]] = {}
    for name, value in (pair for node in nodes for pair in given(node)):
        values.setdefault(name, {})[ast.dump(value)] = value
    return {name: next(iter(each.values())) for name, each in values.items() if len(each) == 1}
