"""The backend that a file chooses for itself: `os.environ["KERAS_BACKEND"] = "jax"`, as examples begin."""

from __future__ import annotations

import ast
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
    """The same of a tree: what is set under a condition, in a function or to several values is no choice."""
    every = [value for node in ast.walk(module) for value in _set(node)]
    always = [value for node in module.body for value in _set(node)]
    named = {value.value for value in always if isinstance(value, ast.Constant)}
    if len(every) != len(always) or len(named) != 1:
        return None
    return next((backend for backend in Backend if backend in named), None)


def _set(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement sets the variable to."""
    match node:
        case (
            ast.Assign(targets=[ast.Subscript(value=owner, slice=name)], value=value)
            | ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=owner, attr="setdefault"), args=[name, value]
                )
            )
        ) if _is_environment(owner) and _is_variable(name):
            yield value


def _is_environment(node: ast.expr) -> bool:
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "environ"


def _is_variable(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == _VARIABLE
