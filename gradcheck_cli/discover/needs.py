"""Needs of a factory: which of its parameters are called, and which are rules that only an author can write."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

_DEFINE = frozenset(
    {"defvjp", "defjvp", "defjvps", "def_fwd", "def_bwd", "def_jvp", "register_autograd"}
)
_BACKWARD_METHODS = frozenset({"backward", "vjp", "jvp"})
# What calls the function that it is given.
_CALLERS = frozenset(
    {"custom_vjp", "custom_jvp", "custom_gradient", "jit", "vmap", "grad", "value_and_grad", "vjp"}
    | {"jvp", "partial", "wraps", "filter_custom_vjp", "filter_custom_jvp", "checkpoint", "function"}
)  # fmt: skip


class Need(Enum):
    """What a factory does with a parameter."""

    FUNCTION = "it is called"
    RULE = "it is the rule, or a part of it"


def needs(function: Callable[..., Any]) -> dict[str, Need]:
    """The parameters that have to be functions, as far as the text of the function shows it."""
    node = _definition(function)
    if node is None:
        return {}
    arguments = node.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    backward = {id(inner) for part in _backward(node) for inner in ast.walk(part)}
    found: dict[str, Need] = {}
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    for call in calls:
        for name in _called(call) & names:
            itself = isinstance(call.func, ast.Name) and call.func.id == name
            if not (itself and id(call) in backward):
                found[name] = Need.FUNCTION
            elif name not in found:
                found[name] = Need.RULE  # unless it is called elsewhere, too
    for call in calls:
        if _last(call.func) in _DEFINE:
            handed = {n.id for n in _arguments(call) if isinstance(n, ast.Name)}
            found |= dict.fromkeys(handed & names, Need.RULE)
    return found


def parts(function: Callable[..., Any]) -> dict[str, int]:
    """Into how many a function, or the constructor of a class, unpacks each name: `rows, columns = shape`."""
    node = _definition(function.__init__ if inspect.isclass(function) else function)
    assigned = () if node is None else (n for n in ast.walk(node) if isinstance(n, ast.Assign))
    return {
        each.value.id: len(target.elts)
        for each in assigned
        for target in each.targets
        if isinstance(each.value, ast.Name) and isinstance(target, ast.Tuple)
    }


def _definition(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function's own syntax tree, if there is source."""
    if inspect.isclass(function):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    first = tree.body[0] if tree.body else None
    return first if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _called(call: ast.Call) -> set[str]:
    """Names that are called here, or by what is called here."""
    names = {call.func.id} if isinstance(call.func, ast.Name) else set()
    if _last(call.func) in _CALLERS and call.args and isinstance(call.args[0], ast.Name):
        names.add(call.args[0].id)
    return names


def _backward(node: ast.AST) -> Iterator[ast.AST]:
    """The functions inside that are backward passes."""
    local = {n.name: n for n in ast.walk(node) if isinstance(n, ast.FunctionDef)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and _last(inner.func) in _DEFINE:
            forward = _last(inner.func) == "defvjp"
            for argument in (_arguments(inner))[1 if forward else 0 :]:
                if isinstance(argument, ast.Lambda):
                    yield argument
                elif isinstance(argument, ast.Name) and argument.id in local:
                    yield local[argument.id]
        elif isinstance(inner, ast.ClassDef):
            yield from (m for m in inner.body if isinstance(m, ast.FunctionDef) and m.name in _BACKWARD_METHODS)  # fmt: skip
        elif isinstance(inner, ast.FunctionDef):
            words = {_last(d.func if isinstance(d, ast.Call) else d) for d in inner.decorator_list}
            if words & (_DEFINE - {"def_fwd"}):
                yield inner
            if "custom_gradient" in words:
                yield from _inner_functions(inner)


def _inner_functions(node: ast.FunctionDef) -> Iterator[ast.AST]:
    """The grad functions of a `custom_gradient`: whatever is defined inside."""
    inside = (n for statement in node.body for n in ast.walk(statement))
    return (n for n in inside if isinstance(n, (ast.FunctionDef, ast.Lambda)))


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords)]


def _last(node: ast.expr) -> str:
    """The last word of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
