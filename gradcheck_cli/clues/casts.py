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
# What keeps the numbers that it is given, or makes others of them one by one.
_KEEPS = frozenset({"where", "clip", "clamp", "clamp_min", "clamp_max", "clip_by_value", "maximum", "minimum", "abs", "square", "sqrt", "log", "log1p", "stop_gradient", "detach", "asarray", "reshape", "unsqueeze", "expand_dims", "view", "astype", "to", "cast"})  # fmt: skip
_OF_PLACES = frozenset({"take", "take_along_axis", "take_along_dim", "gather", "gather_nd", "batch_gather", "one_hot", "bincount", "segment_sum", "segment_max", "segment_min", "segment_mean", "segment_prod", "unsorted_segment_sum", "unsorted_segment_mean", "unsorted_segment_max", "index_add", "index_add_", "index_select", "index_copy", "index_put", "index_put_", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_nd", "tensor_scatter_nd_add", "tensor_scatter_nd_update", "embedding", "embedding_lookup", "nll_loss", "cross_entropy", "range", "arange", "sequence_mask"})  # fmt: skip
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
    counted -= _places(functions)
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


def _places(functions: Sequence[Callable[..., Any]]) -> set[str]:
    """The names that some text takes for places, by themselves or under another name: `table[ids]`, `one_hot(ids, 3)`."""
    texts = [text for text in map(text_of, functions) if text is not None]
    nodes = [node for text in texts for top in text.statements for node in ast.walk(top)]
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Subscript(slice=index):
                found |= _names(index)
            case ast.Call(func=function, args=args, keywords=keywords):
                if last_word(function) in _OF_PLACES:
                    found |= {
                        n for each in (*args, *(k.value for k in keywords)) for n in _names(each)
                    }
    made = [n for n in nodes if isinstance(n, ast.Assign)]
    for assigned in reversed(made):  # `safe = ids.clamp(0)`, and then `table[safe]`
        if found & {n for target in assigned.targets for n in _names(target)}:
            found |= _names(assigned.value) - _compared(assigned.value)
    return found


def _compared(node: ast.AST) -> set[str]:
    """The names in comparisons alone: `rows[rare]`, where `rare = counts < few`, takes no counts for places."""
    return {
        name for each in ast.walk(node) if isinstance(each, ast.Compare) for name in _names(each)
    }


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _within(whole: ast.expr) -> set[str]:
    """The names in an expression whose numbers it holds: not what it compares, nor what other calls make of them."""
    match whole:
        case ast.Name(id=name):
            return {name}
        case ast.Compare():
            return set()
        case ast.Subscript(value=inside):
            parts: Iterable[ast.AST] = (inside,)
        case ast.Call(func=function, args=args):
            owner = (function.value,) if isinstance(function, ast.Attribute) else ()
            parts = (*owner, *args) if last_word(function) in _KEEPS else ()
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
