"""Functions that define a custom gradient and call it themselves: what users call is the outer function."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from gradcheck_cli.subject.results import Place

G = TypeVar("G", bound=Any)

_DECORATES = ("custom_gradient", "custom_vjp", "custom_jvp")


@dataclass(frozen=True, slots=True)
class Outer:
    """A function that calls a custom gradient of its own, `inner`; `through` are the parameters that it hands to it.

    What else the inner function reads, it closes over: that cannot be differentiated.
    """

    function: FunctionType
    inner: str
    through: frozenset[str]

    @property
    def place(self) -> Place:
        """Where the function stands; what is defined in it goes by its name."""
        code, name = self.function.__code__, self.function.__name__
        path, line = code.co_filename, code.co_firstlineno
        return Place(path, line, name, definition=f"{name}.<locals>.{self.inner}")


def outer_functions(module: ModuleType, scopes: Sequence[str]) -> dict[str, Outer]:
    """Of these scopes the functions of the module that call what they define, by name."""
    functions = {scope: getattr(module, scope, None) for scope in scopes if scope.isidentifier()}
    found = {n: _outer(f) for n, f in functions.items() if inspect.isfunction(f)}
    return {name: outer for name, outer in found.items() if outer is not None}


def with_wholes(gradients: Sequence[G], wholes: Sequence[G], outer: Mapping[str, Outer]) -> list[G]:
    """The gradients in the order of their lines: those of outer functions for what is defined in these."""
    inside = tuple(f"{name}.<locals>." for name in outer)
    others = [g for g in gradients if not g.place.qualname.startswith(inside)]
    return sorted([*others, *wholes], key=lambda g: g.place.line)


def _outer(function: FunctionType) -> Outer | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    node = tree.body[0] if tree.body else None
    if not isinstance(node, ast.FunctionDef):
        return None
    inner = {
        part.name
        for part in node.body
        if isinstance(part, ast.FunctionDef) and any(map(_is_custom, part.decorator_list))
    }
    calls = [part for part in _of_its_own(node) if isinstance(part, ast.Call)]
    own = [(c, c.func.id) for c in calls if isinstance(c.func, ast.Name) and c.func.id in inner]
    if not own:
        return None
    handed = {n for call, _ in own for argument in call.args for n in _names(argument)}
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    through = frozenset(_sources(node, handed)) & frozenset(names)
    return Outer(function, own[0][1], through)


def _sources(node: ast.FunctionDef, handed: set[str]) -> set[str]:
    """The names that these are made of, by the function's own assignments."""
    made_of = [
        ({n for target in part.targets for n in _names(target)}, set(_names(part.value)))
        for part in _of_its_own(node)
        if isinstance(part, ast.Assign)
    ]
    found = set(handed)
    for targets, sources in reversed(made_of):
        if targets & found:
            found |= sources
    return found


def _names(node: ast.AST) -> Iterator[str]:
    """Names that are read for their values: `x` of `x.reshape(n, -1)`, not of `x.shape`."""
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "ndim", "dtype", "size"):
        return
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


def _is_custom(decorator: ast.expr) -> bool:
    return any(name in ast.unparse(decorator) for name in _DECORATES)


def _of_its_own(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, but not in the functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _of_its_own(child)
