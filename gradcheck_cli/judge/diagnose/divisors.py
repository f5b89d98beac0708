"""The 1/n of a mean, as a rule may have forgotten it: an expression over a size of an array that it is made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

_TENSORFLOW = "tf"
_ENDS = (0, -1)


def over_sizes(node: ast.expr, names: Sequence[str], library: str | None) -> Iterator[ast.expr]:
    """The expression over the length of the first and the last axis of each array in it, then over its elements."""
    here = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    for name in (name for name in names if name in here):
        for size in _in_tensorflow(name) if library == _TENSORFLOW else _sizes(name):
            yield ast.BinOp(node, ast.Div(), size)


def is_over_a_size(text: str) -> bool:
    """Does a text divide by the size of an array?"""
    tree = ast.parse(text, mode="eval").body
    divisions = (
        n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
    )
    return any(part in ast.unparse(n.right) for n in divisions for part in _SIZES)


_SIZES = (".shape", ".size", ".numel", "tf.size")


def _sizes(name: str) -> Iterator[ast.expr]:
    for end in _ENDS:
        yield _parsed(f"{name}.shape[{end}]")
    yield _parsed(f"{name}.size")
    yield _parsed(f"{name}.numel()")


def _in_tensorflow(name: str) -> Iterator[ast.expr]:
    """As a graph of any batch can take it."""
    for end in _ENDS:
        yield _parsed(f"tf.cast(tf.shape({name})[{end}], {name}.dtype)")
    yield _parsed(f"tf.cast(tf.size({name}), {name}.dtype)")


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
