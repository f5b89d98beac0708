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
    """The backend that a tree names. What is set by `setdefault` leaves the choice to others; what is set twice, or too late, is none."""
    begun = itertools.takewhile(lambda statement: not _imports_keras(statement), module.body)
    named = [
        value.value for node in begun for value in _set(node) if isinstance(value, ast.Constant)
    ]
    writes = [node for node in ast.walk(module) if _writes(node)]
    if len(named) != 1 or len(writes) != 1:
        return None
    return next((backend for backend in Backend if backend in named), None)


def _set(node: ast.AST) -> Iterator[ast.expr]:
    """What a plain assignment sets the variable to."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=owner, slice=name)], value=value):
            if _is_environment(owner) and _is_variable(name):
                yield value


def _writes(node: ast.AST) -> bool:
    """Does it set the variable, or the backend, in any way?"""
    match node:
        case ast.Subscript(slice=name, ctx=ast.Store() | ast.Del()):
            return _is_variable(name)
        case ast.Call(func=ast.Attribute(attr="setdefault" | "putenv" | "pop"), args=[name, *_]):
            return _is_variable(name)
        case ast.Attribute(
            value=ast.Name(id="config" | "keras") | ast.Attribute(attr="config"), attr=name
        ):
            return name == "set_backend"
        case ast.Dict(keys=keys):
            return any(key is not None and _is_variable(key) for key in keys)
        case ast.keyword(arg=name) | ast.Name(id=name):
            return name in (_VARIABLE, "set_backend")
    return False


def _is_environment(node: ast.expr) -> bool:
    """Is it `os.environ`, under whatever name, or what is imported from there?"""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr="environ"):
            return owner != "self"
        case ast.Name(id="environ"):
            return True
    return False


def _is_variable(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == _VARIABLE


def _imports_keras(statement: ast.stmt) -> bool:
    """Does it import Keras, from wherever, or what is built on it?"""
    imports = [n for n in ast.walk(statement) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = [a.name for node in imports for a in node.names]
    names += [node.module or "" for node in imports if isinstance(node, ast.ImportFrom)]
    return any(part.startswith("keras") for name in names for part in name.split("."))
