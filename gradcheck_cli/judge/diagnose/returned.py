"""The expression that a rule returns as the gradient of an argument: where to look if nothing tells more."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradcheck_cli.judge.diagnose.edits import Function, own_nodes, returned_by, rules_in
from gradcheck_cli.judge.diagnose.rewritten import tree_of
from gradcheck_cli.judge.diagnose.span import Span
from gradcheck_cli.subject.protocol import CustomGradient

_FORWARD = "custom_jvp"  # a rule that returns the value, then the tangent
_STEP = re.compile(r"\[(?P<key>'[^']*'|\d+)\]")


@dataclass(frozen=True, slots=True)
class Returned:
    """A file, and where the expression stands in it."""

    path: str
    span: Span


def returned_for(gradient: CustomGradient, argument: str | None) -> Returned | None:
    """What the rule's text returns for this argument; None where it does not show."""
    for function in gradient.rule_code():
        tree = tree_of(function)
        for rule in () if tree is None else rules_in(tree):
            found = _expression(rule, gradient, argument)
            if found is not None:
                path = function.__code__.co_filename
                return Returned(path, Span.of(found, linecache.getlines(path)))
    return None


def _expression(rule: Function, gradient: CustomGradient, argument: str | None) -> ast.expr | None:
    parameters = gradient.parameters()
    every = [p.name for p in parameters]
    learned = [p.name for p in parameters if p.differentiable]
    name = learned[0] if argument is None and learned else re.split(r"[\[.]", argument or "")[0]
    for returned in reversed(returned_by(rule, apart=False)):
        whole = _meant(returned, rule)
        if gradient.kind == _FORWARD:
            pair = whole.elts if isinstance(whole, ast.Tuple) else []
            return _meant(pair[1], rule) if len(pair) == 2 else None
        parts = list(whole.elts) if isinstance(whole, (ast.Tuple, ast.List)) else [whole]
        if any(isinstance(part, ast.Starred) for part in parts):
            continue
        for names in (learned, every):
            if len(names) == len(parts) and name in names:
                return _inside(parts[names.index(name)], argument or name, rule)
    return None


def _inside(node: ast.expr, path: str, rule: Function) -> ast.expr:
    """The part of a dictionary or a tuple that the path leads to, as far as the text spells it."""
    node = _meant(node, rule)
    for step in _STEP.finditer(path):
        key = step["key"].strip("'")
        match node:
            case ast.Dict(keys=keys, values=values):
                parts = [v for k, v in zip(keys, values, strict=True) if _is_key(k, key)]
            case ast.Tuple(elts=elements) | ast.List(elts=elements) if key.isdigit():
                parts = elements[int(key) : int(key) + 1]
            case _:
                parts = []
        if not parts:
            break
        node = _meant(parts[0], rule)
    return node


def _is_key(node: ast.expr | None, key: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == key


def _meant(node: ast.expr, rule: Function) -> ast.expr:
    """What a name stands for, if the rule gives it a value just once."""
    if not isinstance(node, ast.Name):
        return node
    values = list(_values_of(node.id, rule))
    only = values[0] if len(values) == 1 else None
    return node if only is None else only


def _values_of(name: str, rule: Function) -> Iterator[ast.expr | None]:
    """What is assigned to a name; None where it is one of several, or is changed."""
    for node in own_nodes(rule):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield value
            case ast.Name(id=target, ctx=ast.Store()) if target == name:
                if not _is_plain(node, rule):
                    yield None


def _is_plain(node: ast.Name, rule: Function) -> bool:
    """Is it the whole target of an assignment?"""
    plain: Sequence[ast.AST] = [
        target
        for statement in own_nodes(rule)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1
        for target in statement.targets
    ]
    return any(target is node for target in plain)
