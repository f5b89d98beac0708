"""Code that nobody differentiates: functions that have a rule of their own, and the functions of such rules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradcheck_cli.lint.nodes import of_module

_DECORATORS = frozenset({"custom_vjp", "custom_jvp", "custom_gradient"})
_METHODS = frozenset({"forward", "backward", "setup_context", "vjp"})  # of a class of torch
# What takes the functions of a rule: that of `defjvp` is differentiated, by its tangents.
_TAKES_RULES = "defvjp"


def undifferentiated(tree: ast.Module) -> frozenset[int]:
    """The lines of such code in a file."""
    nodes = of_module(tree)
    rules = {name for node in nodes for name in _rules(node)}
    return frozenset(line for node in nodes for line in _lines(node, rules))


def _rules(node: ast.AST) -> Iterator[str]:
    """The functions that a call attaches as a rule: of `f.defvjp(fwd, bwd)` both."""
    if isinstance(node, ast.Call) and _last_word(node.func) == _TAKES_RULES:
        yield from (argument.id for argument in node.args if isinstance(argument, ast.Name))


def _lines(node: ast.AST, rules: set[str]) -> Iterator[int]:
    if isinstance(node, ast.ClassDef) and any(_last_word(b) == "Function" for b in node.bases):
        own = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name in _METHODS]
    elif isinstance(node, ast.FunctionDef) and (node.name in rules or _has_a_rule(node)):
        own = [node]
    else:
        return
    for function in own:
        yield from range(function.lineno, (function.end_lineno or function.lineno) + 1)


def _has_a_rule(function: ast.FunctionDef) -> bool:
    """Is it decorated so, be that by a `partial` of the decorator?"""
    words = {
        _last_word(part)
        for decorator in function.decorator_list
        for part in ast.walk(decorator)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    return bool(words & _DECORATORS)


def _last_word(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
