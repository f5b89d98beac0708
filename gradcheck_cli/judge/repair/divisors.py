"""The 1/n of a mean, or the 1/√n of scores, as a rule may have forgotten it: an expression over a size of an array in it."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from enum import Enum

from gradcheck_cli.contract.limits import SCREEN
from gradcheck_cli.judge.repair.spelled import call

_TENSORFLOW = "tf"
_ENDS = (0, -1)
_SPELLED = (".shape", ".size", ".numel")  # how a size is spelled, `tf.shape(x)` as well


class Divisor(Enum):
    """What a rule may have forgotten to divide by."""

    SIZE = "the 1/n of a mean"
    ROOT = "the 1/√n of scores"


def missing(factors: Sequence[float], sizes: Collection[int]) -> Divisor | None:
    """The divisor that these factors, by which gradients are too large, say to be missing: all are one size, or its root."""
    for divisor, power in ((Divisor.SIZE, 1), (Divisor.ROOT, 2)):
        raised = [factor**power for factor in factors]
        if raised and any(
            all(math.isclose(f, n, rel_tol=SCREEN.value) for f in raised) for n in sizes if n > 1
        ):
            return divisor
    return None


def over_sizes(node: ast.expr, names: Sequence[str], library: str | None) -> Iterator[ast.expr]:
    """The expression over the length of the first and the last axis of each array in it, then over its elements."""
    sizes = _in_tensorflow if library == _TENSORFLOW else _sizes
    for name in _arrays(node, names):
        for size in sizes(name):
            yield ast.BinOp(node, ast.Div(), size)


def over_roots(node: ast.expr, names: Sequence[str], library: str | None) -> Iterator[ast.expr]:
    """The expression over the root of the length of the last axis of each array, by which attention divides its scores."""
    sizes = _in_tensorflow if library == _TENSORFLOW else _sizes
    for name in names:
        size = next(itertools.islice(sizes(name), _ENDS.index(-1), None))
        if library is not None:  # exact over the reals, where the function writes it so
            yield ast.BinOp(node, ast.Div(), call(library, "sqrt", size))
        yield ast.BinOp(node, ast.Div(), ast.BinOp(size, ast.Pow(), ast.Constant(0.5)))


def _arrays(node: ast.expr, names: Sequence[str]) -> list[str]:
    here = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return [name for name in names if name in here]


def is_over_a_size(text: str) -> bool:
    """Does a text divide by the size of an array?"""
    tree = ast.parse(text, mode="eval").body
    divisions = (
        n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
    )
    return any(part in ast.unparse(n.right) for n in divisions for part in _SPELLED)


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
