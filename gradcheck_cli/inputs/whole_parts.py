"""Counts of which one divides the other without a rest: heads, and groups of them."""

from __future__ import annotations

import ast
from collections.abc import Collection

WHOLES, PARTS = (4, 6, 2), (2, 1)


def divided(tree: ast.AST, names: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Whole numbers for each of these names that is divided by another one, or divides it: `heads // groups`."""
    found: dict[str, tuple[int, ...]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left=ast.Name(id=whole), op=ast.FloorDiv(), right=ast.Name(id=part)):
                if {whole, part} <= set(names):
                    found.setdefault(whole, WHOLES)
                    found.setdefault(part, PARTS)
    return found
