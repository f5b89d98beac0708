"""Weights by what is done with their sum: who keeps it from zero by `clamp(min=1e-8)` means none of them below zero."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.tree import text_of
from gradcheck_cli.inputs.clue import Clue

_SUMS = frozenset(
    {"sum", "nansum", "reduce_sum", "segment_sum", "unsorted_segment_sum", "index_add", "index_add_"}
    | {"scatter_add", "scatter_add_", "bincount"}
)  # fmt: skip
_LEAST = frozenset({"clamp", "clamp_", "clamp_min", "clamp_min_", "clip", "clip_by_value", "maximum", "fmax", "max"})  # fmt: skip
_CHOICES = frozenset({"where", "select", "cond"})
_EPSILONS = ("eps", "epsilon", "tiny", "small")


def clues(functions: Sequence[Callable[..., Any]], names: Collection[str]) -> dict[str, Clue]:
    """For each parameter whose sum a function keeps above zero, that it is not negative."""
    texts = (text for text in map(text_of, functions) if text is not None)
    nodes = [node for text in texts for top in text.statements for node in ast.walk(top)]
    summed: dict[str, set[str]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                summed[name] = summed.get(name, set()) | _summed(value, names)
    guarded = [sum_ for node in nodes if isinstance(node, ast.Call) for sum_ in _guarded(node)]
    found = {name for sum_ in guarded for name in _of(sum_, names, summed)}
    return {name: Clue("the body, which keeps its sum above zero", domain=">= 0") for name in found}


def _of(sum_: ast.expr, names: Collection[str], summed: dict[str, set[str]]) -> set[str]:
    return summed.get(sum_.id, set()) if isinstance(sum_, ast.Name) else _summed(sum_, names)


def _summed(node: ast.expr, names: Collection[str]) -> set[str]:
    """The parameters that a call adds up, each as it is."""
    if not isinstance(node, ast.Call) or _named(node) not in _SUMS:
        return set()
    given = [*node.args, *(k.value for k in node.keywords)]
    if isinstance(node.func, ast.Attribute):
        given.append(node.func.value)
    return {each.id for each in given if isinstance(each, ast.Name) and each.id in names}


def _guarded(call: ast.Call) -> Iterator[ast.expr]:
    """What a call keeps from below by a positive number, or takes only where it is above zero."""
    name = _named(call)
    if name in _LEAST:
        own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        bounds = [*call.args, *(k.value for k in call.keywords if k.arg in ("min", "a_min"))]
        if any(map(_is_positive, bounds)):
            yield from (node for node in (*own, *call.args) if not _is_positive(node))
    elif name in _CHOICES and len(call.args) > 1:
        match call.args[0]:
            case ast.Compare(left=left, ops=[ast.Gt()], comparators=[bound]):
                if _is_zero(bound) or _is_positive(bound):
                    yield left


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_positive(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value > 0
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lower().strip("_").endswith(_EPSILONS)
    return False


def _named(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))
