"""Keys by which a function reads a dictionary argument: `params["w"]` means that `params` has `w`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def keys_read(function: Callable[..., Any]) -> dict[str, list[str]]:
    """For each parameter, the constant string keys that the body subscripts it with."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            keys = found.setdefault(node.value.id, [])
            if node.slice.value not in keys:
                keys.append(node.slice.value)
    return found


def unpacked(function: Callable[..., Any]) -> dict[str, int]:
    """For each parameter that the body unpacks (`a, b = pair`), into how many."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                if isinstance(target, ast.Tuple):
                    found[node.value.id] = len(target.elts)
    return found
