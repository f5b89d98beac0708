"""Syntax trees of functions: definitions, lambdas, and nothing where there is no source."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradcheck_cli.clues.source_text.written_out import written_out

# The names by which texts call libraries.
LIBRARIES = frozenset({"np", "numpy", "jnp", "jax", "lax", "tf", "torch", "ops", "keras", "K", "F"})


@dataclass(frozen=True, slots=True)
class Text:
    """The text of one function: its parameters in their order, its statements, and its globals."""

    name: str
    parameters: tuple[str, ...]
    statements: tuple[ast.stmt, ...]
    surroundings: dict[str, Any] = field(repr=False)
    starred: frozenset[str] = frozenset()  # parameters that stand for any number


def text_of(function: Callable[..., Any]) -> Text | None:
    """The function's text; None where its source is not there or is not Python's."""
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    try:
        module = ast.parse(textwrap.dedent(inspect.getsource(inner)))
    except (OSError, TypeError, SyntaxError, ValueError, RecursionError):
        return None
    surroundings = surroundings_of(inner)
    definition = _definition(module, getattr(inner, "__name__", ""), code)
    if definition is None:
        return None
    statement = definition if isinstance(definition, ast.stmt) else ast.Expr(definition)
    (spelled,) = written_out(ast.Module([statement], []), surroundings).body
    whole = spelled.value if isinstance(spelled, ast.Expr) else spelled
    if isinstance(whole, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return definition_text(whole, surroundings)
    return definition_text(definition, surroundings)


def definition_text(
    definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, surroundings: dict[str, Any]
) -> Text:
    """The text of a definition."""
    body = definition.body
    statements = [ast.Return(body)] if isinstance(body, ast.expr) else body
    name = getattr(definition, "name", "<lambda>")
    own = definition.args
    starred = frozenset(a.arg for a in (own.vararg, own.kwarg) if a is not None)
    return Text(name, names_of(own), tuple(statements), surroundings, starred)


def names_of(arguments: ast.arguments) -> tuple[str, ...]:
    """The names that a definition's parameters have, in their order."""
    named = [*arguments.posonlyargs, *arguments.args]
    starred = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return tuple(a.arg for a in (*named, *arguments.kwonlyargs, *starred))


def _definition(
    module: ast.Module, name: str, code: Any
) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
    """The definition of this name, or the one lambda whose parameters are those of the code."""
    first = module.body[0] if module.body else None
    if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef)) and first.name == name:
        return first
    wanted = () if code is None else code.co_varnames[: code.co_argcount]
    lambdas = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Lambda) and tuple(a.arg for a in node.args.args) == wanted
    ]
    return lambdas[0] if len(lambdas) == 1 else None


def surroundings_of(function: Any) -> dict[str, Any]:
    """What names stand for in the function's text, and the class that it is a method of, as Python calls it."""
    around = getattr(function, "__globals__", {})
    owner = around.get(getattr(function, "__qualname__", "").partition(".")[0])
    own = {"__class__": owner} if isinstance(owner, type) else {}
    return {**around, **own, **_enclosed(function)}


def _enclosed(function: Any) -> dict[str, Any]:
    """Values of the variables that the function takes from the functions around it."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    values: dict[str, Any] = {}
    for name, cell in zip(getattr(code, "co_freevars", ()), cells or (), strict=False):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # it is not set yet
            continue
    return values


def last_word(function: ast.expr) -> str:
    """The last word of what is called: `sum` of `jnp.sum`, and of `x.sum`."""
    return str(getattr(function, "attr", getattr(function, "id", "")))
