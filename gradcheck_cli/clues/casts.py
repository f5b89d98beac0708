"""Arguments that are turned into the type of another: `counted.astype(cites.dtype)`, which may be marks until then."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.tree import last_word, text_of

_METHODS = frozenset({"astype", "to", "type", "type_as"})
_FUNCTIONS = frozenset({"cast", "convert_element_type"})


def cast_like_others(
    functions: Sequence[Callable[..., Any]], names: Collection[str]
) -> frozenset[str]:
    """The parameters that some text turns into the type of another."""
    texts = [text for text in map(text_of, functions) if text is not None]
    nodes = (node for text in texts for top in text.statements for node in ast.walk(top))
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return frozenset(name for call in calls for name in _cast(call)) & set(names)


def _cast(call: ast.Call) -> Iterator[str]:
    """The name of what a call turns into the type of something of another name."""
    word = last_word(call.func)
    if word in _METHODS and isinstance(call.func, ast.Attribute):
        whole, types = call.func.value, call.args
    elif word in _FUNCTIONS and call.args:
        whole, types = call.args[0], call.args[1:]
    else:
        return
    wanted = [*types, *(k.value for k in call.keywords if k.arg == "dtype")]
    owners = {owner for each in wanted for owner in _owners(each, typed=word == "type_as")}
    if isinstance(whole, ast.Name) and owners and whole.id not in owners:
        yield whole.id


def _owners(node: ast.expr, *, typed: bool) -> Iterator[str]:
    """The name whose type is meant: of `x.dtype`, and of `x` itself where that says a type."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="dtype"):
            yield name
        case ast.Name(id=name) if typed:
            yield name
