"""Whole numbers by which a text goes along an axis in pieces: `range(0, rows, 32)`, `x.split(CHUNK)`, `pl.cdiv(n, ROWS)`.

An axis that is no longer is one piece, and what becomes of the next ones does not show.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.named_functions import with_helpers
from gradcheck_cli.clues.source_text.statements import nodes_of
from gradcheck_cli.clues.source_text.tree import Text, last_word, text_of

_STEPS = frozenset({"range", "arange", "trange"})
_TRITON = frozenset({"triton", "tl"})
_LEAST = 4  # shorter pieces are several in any axis that is tried


def pieces(functions: Sequence[Callable[..., Any]]) -> tuple[int, ...]:
    """How long the pieces are that these or their helpers take, each once, the shortest first."""
    lengths: set[int] = set()
    for function in with_helpers(functions):
        text = text_of(function)
        if text is not None:
            known = _numbers(function, text)
            lengths |= {n for node in nodes_of([text]) for n in _lengths(node, known)}
    return tuple(sorted(n for n in lengths if n >= _LEAST))


def _lengths(node: ast.AST, known: Mapping[str, object]) -> Iterator[int]:
    """How long pieces are that are taken here."""
    match node:
        case ast.Call(func=called, args=[_, _, step]) if last_word(called) in _STEPS:
            yield from _whole(step, known)
        case ast.Call(func=called, args=[_, block]) if _counts_blocks(called):
            yield from _whole(block, known)
        case ast.Call(func=ast.Attribute(value=owner, attr="split"), args=args):
            of_torch = isinstance(owner, ast.Name) and owner.id == "torch"
            for length in args[of_torch : of_torch + 1]:
                yield from _whole(length, known)
        case ast.keyword(arg="split_size" | "split_size_or_sections", value=n):
            yield from _whole(n, known)
        case ast.Slice(lower=ast.expr() as first, upper=ast.BinOp(left, ast.Add(), n)):
            if ast.dump(first) == ast.dump(left):
                yield from _whole(n, known)


def _counts_blocks(called: ast.expr) -> bool:
    """Is it `pl.cdiv`, or the like? What Triton launches says itself how its arrays are cut."""
    owner = called.value if isinstance(called, ast.Attribute) else None
    of_triton = isinstance(owner, ast.Name) and owner.id in _TRITON
    return last_word(called) == "cdiv" and not of_triton


def _whole(node: ast.expr, known: Mapping[str, object]) -> Iterator[int]:
    """The whole number that stands here, or that a name of the function or the module is."""
    number: object
    match node:
        case ast.Constant(value=value):
            number = value
        case ast.Name(id=name):
            number = known.get(name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            number = getattr(known.get(name), "__dict__", {}).get(attribute)
        case _:
            return
    if type(number) is int:
        yield number


def _numbers(function: Callable[..., Any], text: Text) -> dict[str, object]:
    """What names stand for: of the surroundings, of parameters their defaults, and numbers that are assigned."""
    assigned = {
        node.targets[0].id: node.value.value
        for node in nodes_of([text])
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    try:
        defaults = {n: p.default for n, p in inspect.signature(function).parameters.items()}
    except (TypeError, ValueError):
        defaults = {}
    return {**text.surroundings, **defaults, **assigned}
