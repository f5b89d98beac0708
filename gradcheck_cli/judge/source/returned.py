"""The expression that a rule returns as the gradient of an argument: where to look if nothing tells more."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TypeVar

from gradcheck_cli.judge.source.rewritten import tree_of
from gradcheck_cli.judge.source.rule_text import Function, own_nodes, returned_by, rules_in
from gradcheck_cli.judge.source.span import Span
from gradcheck_cli.judge.source.written import written
from gradcheck_cli.subject.protocol import CustomGradient

_FORWARD = "custom_jvp"  # a rule that returns the value, then the tangent
# What `defjvps` hands the rule of one argument before the arguments: a tangent, and the value.
_BEFORE = 2
_BESIDE_THE_VALUE = ("custom_gradient",)  # rules that a function returns beside its value
_Node = TypeVar("_Node", bound=ast.expr)
Lines = frozenset[int]
Traced = frozenset[tuple[str, int]]  # files and lines
_STEP = re.compile(r"\[(?P<key>'[^']*'|\d+)\]")


@dataclass(frozen=True, slots=True)
class Returned:
    """A file, and where the expression stands in it."""

    path: str
    span: Span


def returned_for(
    gradient: CustomGradient, argument: str | None, traced: Traced | None = None
) -> Returned | None:
    """What the rule's text returns for this argument, in a branch that was traced; None where it does not show."""
    for function in written(gradient):
        tree = tree_of(function)
        here = function.__code__.co_filename
        lines = None if traced is None else frozenset(n for path, n in traced if path == here)
        rules = [] if tree is None else rules_in(tree)
        if gradient.kind in _BESIDE_THE_VALUE and rules == [tree]:
            continue  # what it returns is no gradient
        for rule in rules:
            found = _tangent(function, rule, gradient, argument) or _expression(
                rule, gradient, argument, lines
            )
            if found is not None:
                path = function.__code__.co_filename
                return Returned(path, Span.of(found, linecache.getlines(path)))
    return None


def _tangent(
    function: FunctionType, rule: Function, gradient: CustomGradient, argument: str | None
) -> ast.expr | None:
    """What `defjvps` was given for this argument: a rule for each of them, which returns a tangent alone."""
    rules = list(gradient.rule_code())
    every, learned, name = _names(gradient, argument)
    taken = len(rule.args.args)
    if gradient.kind != _FORWARD or taken != len(every) + _BEFORE or len(rules) != len(learned):
        return None
    if function not in rules or learned[rules.index(function)] != name:
        return None
    last = returned_by(rule, apart=False)[-1:]
    return _meant(last[0], rule) if last else None


def _names(gradient: CustomGradient, argument: str | None) -> tuple[list[str], list[str], str]:
    """The names of all parameters, of those that are differentiated, and of the one that is meant."""
    parameters = gradient.parameters()
    learned = [p.name for p in parameters if p.differentiable]
    name = learned[0] if argument is None and learned else re.split(r"[\[.]", argument or "")[0]
    return [p.name for p in parameters], learned, name


def _expression(
    rule: Function, gradient: CustomGradient, argument: str | None, traced: Lines | None
) -> ast.expr | None:
    every, learned, name = _names(gradient, argument)
    for returned in _traced_last(returned_by(rule, apart=False), traced)[::-1]:
        whole = _meant(returned, rule, traced)
        if gradient.kind == _FORWARD:
            pair = whole.elts if isinstance(whole, ast.Tuple) else []
            return _meant(pair[1], rule, traced) if len(pair) == 2 else None
        parts = list(whole.elts) if isinstance(whole, (ast.Tuple, ast.List)) else [whole]
        if any(isinstance(part, ast.Starred) for part in parts):
            continue
        for names in (learned, every):
            if len(names) == len(parts) and name in names:
                return _inside(parts[names.index(name)], argument or name, rule, traced)
    return None


def _inside(node: ast.expr, path: str, rule: Function, traced: Lines | None) -> ast.expr:
    """The part of a dictionary or a tuple that the path leads to, as far as the text spells it."""
    node = _meant(node, rule, traced)
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
        node = _meant(parts[0], rule, traced)
    return node


def _traced_last(nodes: Sequence[_Node], traced: Lines | None) -> list[_Node]:
    """The nodes in their order, but those that were traced behind the others.

    Where none was, what leaves nothing to trace was taken: a cotangent that is handed on.
    """
    if traced is None:
        return list(nodes)
    return sorted(nodes, key=lambda n: (not traced.isdisjoint(_lines_of(n)), _is_bare(n)))


def _is_bare(node: ast.AST) -> bool:
    """Is it names and constants alone?"""
    bare = (ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Load)
    return all(isinstance(part, bare) for part in ast.walk(node))


def _lines_of(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_key(node: ast.expr | None, key: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == key


def _meant(node: ast.expr, rule: Function, traced: Lines | None = None) -> ast.expr:
    """What a name stands for: what it is given last, if that is sure to be what the rule returns.

    Of two branches the one that was traced gives it.
    """
    if not isinstance(node, ast.Name):
        return node
    nodes = (n for n in own_nodes(rule) if isinstance(n, ast.stmt))
    given = sorted((n for n in nodes if _stores(n, node.id)), key=lambda n: n.lineno)
    body = [] if isinstance(rule, ast.Lambda) else rule.body
    if traced and given and given[-1] not in body:
        taken = [n for n in given if not traced.isdisjoint(_lines_of(n))]
        given = taken if len(taken) == 1 else given
    match given[-1:]:
        # Further down in the text, and in no branch: it holds, whatever came before.
        case [ast.Assign(targets=[ast.Name()], value=value) as last]:
            return value if len(given) == 1 or last in body else node
    return node


def _stores(node: ast.stmt, name: str) -> bool:
    """Does a statement give the name a value, alone or among others?"""
    match node:
        case ast.Assign(targets=targets):
            return any(_is_stored(part, name) for target in targets for part in ast.walk(target))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            return any(_is_stored(part, name) for part in ast.walk(target))
    return False


def _is_stored(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
