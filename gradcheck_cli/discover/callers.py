"""Callers of a function of the module that give it a function of their own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def caller(path: str, qualname: str) -> str:
    """The first function of the file that calls this one (or its factory) with a function; or nothing."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    name = qualname.partition(".<locals>")[0]
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    known = {f.name for f in functions}
    rules = set(_handed(tree, name))
    for function in functions:
        own = function.name == name or function.name in rules or _defines(function, name)
        ours = known | set(_defined_inside(function))
        if not own and any(_gives_one(c, ours) for c in _calls(function, name)):
            return function.name
    return ""


def _calls(node: ast.AST, name: str) -> Iterator[ast.Call]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            called = inner.func
            if isinstance(called, ast.Attribute) and called.attr == "apply":
                called = called.value
            if isinstance(called, ast.Name) and called.id == name:
                yield inner


def _defined_inside(function: ast.FunctionDef) -> Iterator[str]:
    """Functions of its own: nested ones, and lambdas that it gives a name."""
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef) and node is not function:
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))


def _gives_one(call: ast.Call, known: set[str]) -> bool:
    """Is a function among the arguments: a lambda, one of the module, or one of a library?"""
    arguments = [*call.args, *(k.value for k in call.keywords)]
    return any(
        isinstance(a, (ast.Lambda, ast.Attribute)) or (isinstance(a, ast.Name) and a.id in known)
        for a in arguments
    )


def _handed(tree: ast.AST, name: str) -> Iterator[str]:
    """Functions that are handed to `name.defvjp` and its like: the rule itself."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == name
        ):
            yield from (a.id for a in node.args if isinstance(a, ast.Name))


def _defines(function: ast.FunctionDef, name: str) -> bool:
    """Is it a rule by its decorator, as in `@name.defjvp`?"""
    return any(
        isinstance(d, ast.Attribute) and isinstance(d.value, ast.Name) and d.value.id == name
        for d in function.decorator_list
    )
