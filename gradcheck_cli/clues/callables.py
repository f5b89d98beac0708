"""Functions of the module for a parameter that is called: what calls elsewhere pass, or what takes the same names.

`rk4_step(f, t, y, params)` calls `f(t, y, params)`: a function `growth(t, y, params)` beside it is what is meant.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from gradcheck_cli.clues.source_text.tree import Text, text_of
from gradcheck_cli.inputs.signature import Fixed, Parameter

# What is handed a function and then its arguments.
_HANDED = ("vjp", "linearize", "checkpoint")
_FEWEST = 2  # equal names that are no accident


def callables(
    function: Callable[..., Any],
    parameters: Sequence[Parameter],
    rule: Sequence[Callable[..., Any]] = (),
) -> dict[str, Fixed]:
    """For each parameter that the text calls the function that fits it best, if the module has one."""
    text = text_of(function)
    if text is None:
        return {}
    own = {id(inspect.unwrap(f)) for f in (function, *rule)}
    near = {n: f for n, f in _functions(text.surroundings).items() if id(f) not in own}
    found: dict[str, Fixed] = {}
    for parameter in parameters:
        calls = list(_calls(text, parameter.name))
        choice = _passed(text, parameter, near) if calls else None
        choice = choice or _alike(parameter.name, calls, near)
        if choice is not None:
            found[parameter.name] = choice
    return found


def spread(function: Callable[..., Any], chosen: Mapping[str, Fixed]) -> dict[str, int]:
    """For each parameter that is spread into such a call, how many it holds: `f(x, *args)` with what `f` takes."""
    text = text_of(function)
    if text is None:
        return {}
    counts: dict[str, int] = {}
    for name, fixed in chosen.items():
        taken = len(inspect.signature(fixed.value).parameters)
        for arguments in _calls(text, name):
            last = arguments[-1] if arguments else None
            if isinstance(last, ast.Starred) and taken >= len(arguments):
                counts[_name(last.value)] = taken - len(arguments) + 1
    return counts


def _functions(surroundings: Mapping[str, Any]) -> dict[str, FunctionType]:
    """Functions that the module itself defines, in their order."""
    own = surroundings.get("__name__")
    return {
        name: value
        for name, value in surroundings.items()
        if isinstance(value, FunctionType) and value.__module__ == own
    }


def _calls(text: Text, name: str) -> Iterator[list[ast.expr]]:
    """The arguments of each call of the parameter."""
    for statement in text.statements:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call) or node.keywords:
                continue
            if isinstance(node.func, ast.Name) and node.func.id == name:
                yield node.args
            elif _last(node.func) in _HANDED and _name(node.args[0] if node.args else None) == name:
                yield node.args[1:]


def _passed(text: Text, parameter: Parameter, near: Mapping[str, FunctionType]) -> Fixed | None:
    """The function that the module passes where it calls the one under check by name."""
    for call in _calls_in_module(text):
        given = [k.value for k in call.keywords if k.arg == parameter.name]
        given += call.args[parameter.index : parameter.index + 1]
        name = _name(given[0]) if given else ""
        if name in near:
            source = f"the call `{text.name}({name}, …)` in line {call.lineno}"
            return Fixed(near[name], name, source)
    return None


def _calls_in_module(text: Text) -> Iterator[ast.Call]:
    """Calls of this function in the file that defines it."""
    try:
        with open(text.surroundings["__file__"], encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (KeyError, OSError, TypeError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func) == text.name:
            yield node


def _alike(
    name: str, calls: Sequence[Sequence[ast.expr]], near: Mapping[str, FunctionType]
) -> Fixed | None:
    """The function with as many parameters, and most of them called like the arguments."""
    best, most = "", 0
    for arguments in calls[:1]:
        for candidate, function in near.items():
            names = list(inspect.signature(function).parameters)
            if len(names) == len(arguments):
                same = sum(map(_is_called, arguments, names))
                best, most = (candidate, same) if same > most else (best, most)
        if most >= _FEWEST:
            alike = most == len(arguments)
            source = f"it takes what `{name}` is called with"
            return Fixed(near[best], best, source, invented=not alike)
    return None


def _is_called(argument: ast.expr, name: str) -> bool:
    """Is the argument of this name, or made from what is: `t + dt / 2` is a `t`?"""
    first = next((n.id for n in ast.walk(argument) if isinstance(n, ast.Name)), "")
    while isinstance(argument, ast.BinOp):
        argument = argument.left
    return name in (_name(argument), first)


def _name(node: ast.expr | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else _name(node)
