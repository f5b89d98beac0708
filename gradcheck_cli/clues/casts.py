"""Arguments that are turned into the type of another: `counted.astype(cites.dtype)`, which may be marks or numbers until then."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.clues.source_text.tree import last_word, text_of
from gradcheck_cli.inputs.clue import Clue, Kind

_METHODS = frozenset({"astype", "to", "type", "type_as"})
_FUNCTIONS = frozenset({"cast", "convert_element_type"})
_TO_FLOATS = frozenset({"float", "double", "float32", "float64"})


def cast_like_others(
    functions: Sequence[Callable[..., Any]], names: Collection[str]
) -> frozenset[str]:
    """The parameters that some text turns into the type of another."""
    casts = (cast for call in _calls(functions) if (cast := _cast(call)) is not None)
    return frozenset(
        whole.id
        for whole, owners in casts
        if isinstance(whole, ast.Name) and owners and whole.id not in owners
    ) & set(names)


def with_quantities(
    clues: Mapping[str, Sequence[Clue]], functions: Sequence[Callable[..., Any]]
) -> dict[str, list[Clue]]:
    """The clues, where integers that some text turns into floats are numbers to count with, and no places.

    `(fill - 1).to(x.dtype)`; but `(ids == k).astype(x.dtype)` turns what a comparison says.
    """
    casts = (cast for call in _calls(functions) if (cast := _cast(call)) is not None)
    counted = {name for whole, owners in casts for name in _within(whole) - owners}
    return {
        path: [replace(c, quantity=c.kind is Kind.INTEGERS) for c in each]
        if path in counted
        else list(each)
        for path, each in clues.items()
    }


def _calls(functions: Sequence[Callable[..., Any]]) -> Iterator[ast.Call]:
    texts = [text for text in map(text_of, functions) if text is not None]
    nodes = (node for text in texts for top in text.statements for node in ast.walk(top))
    return (node for node in nodes if isinstance(node, ast.Call))


def _cast(call: ast.Call) -> tuple[ast.expr, set[str]] | None:
    """What a call turns into another type, and the names of what that type is of: none for `float32`."""
    word = last_word(call.func)
    if word in _METHODS and isinstance(call.func, ast.Attribute):
        whole, types = call.func.value, call.args
    elif word in _FUNCTIONS and call.args:
        whole, types = call.args[0], call.args[1:]
    elif word in _TO_FLOATS and isinstance(call.func, ast.Attribute) and len(call.args) < 2:
        return (call.args[0] if call.args else call.func.value), set()
    else:
        return None
    wanted = [*types, *(k.value for k in call.keywords if k.arg == "dtype")]
    owners = {owner for each in wanted for owner in _owners(each, typed=word == "type_as")}
    named = any(last_word(each) in _TO_FLOATS for each in wanted)
    return (whole, owners) if owners or named else None


def _within(whole: ast.expr) -> set[str]:
    """The names in an expression whose numbers it holds: not what it compares, and no places."""
    match whole:
        case ast.Name(id=name):
            return {name}
        case ast.Compare():
            return set()
        case ast.Subscript(value=inside):
            parts: Iterable[ast.AST] = (inside,)
        case ast.Call(func=ast.Attribute(value=owner), args=args):
            parts = (owner, *args)
        case _:
            parts = ast.iter_child_nodes(whole)
    return {name for part in parts if isinstance(part, ast.expr) for name in _within(part)}


def _owners(node: ast.expr, *, typed: bool) -> Iterator[str]:
    """The name whose type is meant: of `x.dtype`, and of `x` itself where that says a type."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="dtype"):
            yield name
        case ast.Name(id=name) if typed:
            yield name
