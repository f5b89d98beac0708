"""Arguments that are one bound of a clip whose other bound is a number: who writes `clip(x, 0, n)` means no `n` below 0."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.statements import given, nodes_of
from gradcheck_cli.clues.source_text.tree import last_word, text_of
from gradcheck_cli.inputs.clue import Clue

_CLIPS = frozenset({"clip", "clamp", "clamp_", "clip_by_value"})
_LOWER = frozenset({"min", "a_min", "min_value", "clip_value_min", "lower", "x_min"})
_UPPER = frozenset({"max", "a_max", "max_value", "clip_value_max", "upper", "x_max"})
# What gives the same numbers in another shape.
_MOVES = frozenset({"expand_dims", "unsqueeze", "reshape", "view", "broadcast_to", "expand", "astype", "cast", "asarray"})  # fmt: skip
_MODULES = frozenset({"jnp", "np", "numpy", "jax", "lax", "torch", "tf", "ops", "keras", "K", "math"})  # fmt: skip


def clues(functions: Sequence[Callable[..., Any]], names: Collection[str]) -> dict[str, Clue]:
    """For each such parameter, on which side of the number it is."""
    nodes = nodes_of([text for text in map(text_of, functions) if text is not None])
    values = [pair for node in nodes for pair in given(node)]
    known = {name: value for name, value in values if [n for n, _ in values].count(name) == 1}
    found: dict[str, Clue] = {}
    for low, high in (pair for n in nodes if isinstance(n, ast.Call) for pair in _bounds(n)):
        for bound, other, sign in ((high, low, ">"), (low, high, "<")):
            number, name = _number(other), _behind_moves(bound, known)
            if number is not None and name in names:
                source = f"the body, which clips between it and {number:g}"
                found.setdefault(name, Clue(source, domain=f"{sign} {number:g}"))
    return found


def _bounds(call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The lower and the upper bound of a clip: `jnp.clip(x, low, high)`, `x.clamp(min=low, max=high)`."""
    if last_word(call.func) not in _CLIPS:
        return
    own = call.args if _is_method(call.func) else call.args[1:]
    named = {k.arg: k.value for k in call.keywords if k.arg is not None}
    low = next((v for k, v in named.items() if k in _LOWER), own[0] if own else None)
    high = next((v for k, v in named.items() if k in _UPPER), own[1] if own[1:] else None)
    if low is not None and high is not None:
        yield low, high


def _is_method(called: ast.expr) -> bool:
    """Is it called on what is clipped, and not found in a library?"""
    if not isinstance(called, ast.Attribute):
        return False
    owner = called.value
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return not (isinstance(owner, ast.Name) and owner.id in _MODULES)


def _number(node: ast.expr) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _number(operand)
            return None if inner is None else -inner
    return None


def _behind_moves(node: ast.expr, known: Mapping[str, ast.expr]) -> str:
    """The name of the parameter whose numbers it has: of `n` in `n[:, None]`, and in `bound = n.unsqueeze(-1)`."""
    for _ in range(len(known) + 8):
        match node:
            case ast.Name(id=name) if name in known:
                node = known[name]
            case ast.Name(id=name):
                return name
            case ast.Subscript(value=value):
                node = value
            case ast.Call(func=called, args=args) if last_word(called) in _MOVES:
                own = isinstance(called, ast.Attribute) and _is_method(called)
                if not own and not args:
                    return ""
                node = called.value if own and isinstance(called, ast.Attribute) else args[0]
            case _:
                return ""
    return ""
