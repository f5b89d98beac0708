"""A share of a count, in whole things: of `int(fraction * n)` nothing shows where that is none."""

from __future__ import annotations

import ast
from collections.abc import Callable

from gradcheck_cli.clues.source_text.facts import Facts
from gradcheck_cli.clues.source_text.values import Part, Value, itself
from gradcheck_cli.inputs.clue import Kind

_ROUNDINGS = frozenset({"int", "round", "floor", "ceil", "trunc"})
_SEVERAL_OF_FEW = 0.4  # one of three, two of five


def call(node: ast.Call, value: Callable[[ast.expr], Value], facts: Facts) -> None:
    """Note which parameter is such a share, and one that leaves something of small arrays."""
    name = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
    product = node.args[0] if node.args and not node.keywords else None
    if name not in _ROUNDINGS or not isinstance(product, ast.BinOp):
        return
    if not isinstance(product.op, ast.Mult):
        return
    sides = [value(product.left), value(product.right)]
    parts = [side for side in sides if isinstance(side, Part) and itself(side) is not None]
    written = any(isinstance(side, ast.Constant) for side in (product.left, product.right))
    if len(parts) == 1 and not written:
        facts.kind(parts[0], Kind.NUMBER, [_SEVERAL_OF_FEW])
