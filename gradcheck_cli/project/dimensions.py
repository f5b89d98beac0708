"""Dimensions by name: equal where the names are, different from each other otherwise, none of them 1.

A dimension is a number, a name, or a little arithmetic on these: `n-1`, `2*d`, `h*w`, `d//2`, `2**n`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Iterable, Iterator, Sequence

# Sizes in the order in which names are met.
_SIZES = (3, 4, 5, 2, *range(6, 64))
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Pow: operator.pow}  # fmt: skip
_MOST_BITS = 12  # of a power
# A kernel is shorter than what it slides over, also where it is met later. Batches and channels may be shorter still.
_SLIDING = re.compile(r"k_?[hwdt]?\d?|ks|k_?size|kernel\w*|window\w*|taps", re.IGNORECASE)
_CHANNELS = re.compile(r"b|batch\w*|c|c_?in|channels\w*|in_channels", re.IGNORECASE)


class DimensionError(Exception):
    """What is wrong with a dimension."""


def sizes_of(tokens: Iterable[str]) -> dict[str, int]:
    """A size for each name among the dimensions, all different, also from the numbers beside them."""
    trees = [tree for tree in map(_tree, tokens) if tree is not None]
    names = list(dict.fromkeys(n.id for t in trees for n in ast.walk(t) if isinstance(n, ast.Name)))
    used = {t.value for t in trees if isinstance(t, ast.Constant) and isinstance(t.value, int)}
    sliding = [n for n in names if _SLIDING.fullmatch(n)]
    sizes: dict[str, int] = {}
    for name in [*sliding, *(n for n in names if n not in sliding)]:
        longest = max((sizes[n] for n in sliding if n in sizes), default=0)
        free = name in sliding or _CHANNELS.fullmatch(name) is not None
        fitting = _fitting(name, trees, 0 if free else longest)
        sizes[name] = next(size for size in fitting if size not in used)
        used.add(sizes[name])
    return sizes


def size_of(token: str, sizes: dict[str, int]) -> int:
    """The size of one dimension, with the sizes of all names."""
    tree = _tree(token)
    if tree is None:
        raise DimensionError(f"`{token}` is no dimension: a number or a name")
    size = _value(tree, sizes)
    if size < 0:
        raise DimensionError(f"`{token}` would be {size}")
    return size


def _fitting(name: str, trees: Sequence[ast.expr], longer_than: int) -> Iterator[int]:
    """Sizes for a name, so that what is divided has no rest and what is subtracted leaves two."""
    divisor, least = 1, max(2, longer_than + 1)
    for node in (n for t in trees for n in ast.walk(t)):
        if not (isinstance(node, ast.BinOp) and _is_name(node.left, name)):
            continue
        if isinstance(node.right, ast.Constant) and isinstance(node.right.value, int):
            if isinstance(node.op, ast.FloorDiv) and node.right.value:
                divisor = math.lcm(divisor, node.right.value)
            if isinstance(node.op, ast.Sub):
                least = max(least, node.right.value + 2)
    fitting = (size * divisor for size in _SIZES)
    return (size for size in (*fitting, *range(64, 4096, divisor)) if size >= least)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _tree(token: str) -> ast.expr | None:
    """The dimension as a syntax tree; None if it is none."""
    try:
        tree = ast.parse(token, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree if _is_dimension(tree) else None


def _is_dimension(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return type(node.op) in _OPERATORS and all(map(_is_dimension, (node.left, node.right)))
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and not isinstance(node.value, bool)
    return isinstance(node, ast.Name)


def _value(node: ast.expr, sizes: dict[str, int]) -> int:
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, sizes), _value(node.right, sizes)
        if isinstance(node.op, ast.FloorDiv) and right == 0:
            raise DimensionError("a dimension is divided by 0")
        if isinstance(node.op, ast.Pow) and not (
            right >= 0 and right * math.log2(max(1, abs(left))) <= _MOST_BITS
        ):
            raise DimensionError(f"a dimension would be {left}**{right}")
        return int(_OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            raise DimensionError(f"`{node.id}` stands in a bracket that is not closed")
        return sizes[node.id]
    return int(ast.literal_eval(node))
