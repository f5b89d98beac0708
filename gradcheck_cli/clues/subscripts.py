"""Keys by which a function reads a dictionary argument: `params["w"]` means that `params` has `w`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def keys_read(function: Callable[..., Any]) -> dict[str, list[str]]:
    """For each parameter, the constant string keys that the body subscripts it with."""
    keys_of: dict[str, list[str]] = {}
    for node in _nodes(function):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            keys = keys_of.setdefault(node.value.id, [])
            if node.slice.value not in keys:
                keys.append(node.slice.value)
    return keys_of


def unpacked(functions: Sequence[Callable[..., Any]]) -> dict[str, list[str]]:
    """For each name that a body unpacks (`a, b = pair`), the names of its parts: the first body's, if several do."""
    parts: dict[str, list[str]] = {}
    for node in (node for function in functions for node in _nodes(function)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                if isinstance(target, ast.Tuple):
                    parts.setdefault(node.value.id, [ast.unparse(part) for part in target.elts])
    return parts


def attributes_read(functions: Sequence[Callable[..., Any]]) -> dict[str, frozenset[str]]:
    """For each name in the functions' bodies, the attributes that are read of it."""
    found: dict[str, set[str]] = {}
    for node in (node for function in functions for node in _nodes(function)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return {name: frozenset(attributes) for name, attributes in found.items()}


def _nodes(function: Callable[..., Any]) -> Iterator[ast.AST]:
    """The syntax tree of the function's source, node by node; nothing where there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return
    yield from ast.walk(tree)
