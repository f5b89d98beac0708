"""Words that the factory or the class around a function compares its options with, and those it looks up: `mode not in _MODES`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import (
    classes_around,
    factories_around,
    own_parameters,
    plain_function,
)
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Parameter

_MOST = 8


def clues(function: Callable[..., Any], parameters: Sequence[Parameter]) -> dict[str, Clue]:
    """For each option that is none of the function's own parameters the words that its factory or its class knows.

    Its default is one of them.
    """
    inner = plain_function(function)
    own = own_parameters(inner)
    known = getattr(inner, "__globals__", {})
    found: dict[str, Clue] = {}
    for factory in (*factories_around(inner), *classes_around(inner)):
        source = f"the body of `{factory.name}`"
        for name, default in ((p.name, p.default) for p in parameters):
            if name in own or name in found:
                continue
            read = [*_words(factory, name, known), *([default] if isinstance(default, str) else [])]
            words = tuple(dict.fromkeys(read))[:_MOST]
            if len(words) > 1:
                found[name] = Clue(source, values=words, kind=Kind.WORD)
    return found


def _words(factory: ast.AST, name: str, known: Mapping[str, Any]) -> Iterator[str]:
    for node in ast.walk(factory):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and _is(node.left, name):
            yield from _listed(node.comparators[0], known)
        elif isinstance(node, ast.Subscript) and _is(node.slice, name):
            yield from _listed(node.value, known)


def _is(node: ast.expr, name: str) -> bool:
    """Is it the option, or what an object keeps of it: `self.mode`?"""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id == "self" and node.attr.lstrip("_") == name
    return isinstance(node, ast.Name) and node.id == name


def _listed(node: ast.expr, known: Mapping[str, Any]) -> list[str]:
    """The words of a literal, or of a constant of the module."""
    held: Any = known.get(node.id) if isinstance(node, ast.Name) else None
    if isinstance(node, ast.Constant):
        held = (node.value,)
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        held = [e.value for e in node.elts if isinstance(e, ast.Constant)]
    elif isinstance(node, ast.Dict):
        held = [key.value for key in node.keys if isinstance(key, ast.Constant)]
    if not isinstance(held, Collection) or isinstance(held, str):
        return []
    words = list(held)
    return words if all(isinstance(word, str) for word in words) else []
