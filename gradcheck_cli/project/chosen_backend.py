"""The backend that a file chooses for itself: `os.environ["KERAS_BACKEND"] = "jax"`, as examples begin."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from gradcheck_cli.project.framework_marks import Backend

_VARIABLE = "KERAS_BACKEND"


def chosen_backend(source: str) -> Backend | None:
    """The one that a file names where it sets the variable; None if it sets none."""
    if _VARIABLE not in source:
        return None
    try:
        return chosen_in(ast.parse(source))
    except (SyntaxError, ValueError):
        return None


def chosen_in(module: ast.Module) -> Backend | None:
    """The backend that a tree names. What is set by `setdefault` leaves the choice to others, and what is set in any other way, or too late, is none."""
    begun = itertools.takewhile(lambda statement: not _imports_keras(statement), module.body)
    named = [
        value.value for node in begun for value in _set(node) if isinstance(value, ast.Constant)
    ]
    mentions = [node for node in ast.walk(module) if _mentions(node)]
    if len(named) != 1 or len(mentions) != 1:
        return None
    return next((backend for backend in Backend if backend in named), None)


def _set(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement sets the variable to."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=owner, slice=name)], value=value):
            if _is_environment(owner) and _mentions(name):
                yield value


def _is_environment(node: ast.expr) -> bool:
    """Is it `os.environ`, or what is imported from there?"""
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr="environ") | ast.Name(id="environ"):
            return True
    return False


def _imports_keras(statement: ast.stmt) -> bool:
    modules = [
        node.module or "" for node in ast.walk(statement) if isinstance(node, ast.ImportFrom)
    ]
    modules += [a.name for n in ast.walk(statement) if isinstance(n, ast.Import) for a in n.names]
    return any(module.partition(".")[0] == "keras" for module in modules)


def _mentions(node: ast.AST) -> bool:
    """Does it name the variable, or set the backend by a call?"""
    match node:
        case ast.Constant(value=value):
            return bool(value == _VARIABLE)
        case ast.keyword(arg=name) | ast.Attribute(attr=name) | ast.Name(id=name):
            return name in (_VARIABLE, "set_backend")
    return False
