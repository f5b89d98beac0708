"""Weights by what is done with their sum: who keeps it from zero by `clamp(min=1e-8)` means none of them below zero."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.tree import last_word, text_of
from gradcheck_cli.inputs.clue import Clue

_SUMS = frozenset(
    {"sum", "nansum", "reduce_sum", "segment_sum", "unsorted_segment_sum", "index_add", "index_add_"}
    | {"scatter_add", "scatter_add_", "bincount"}
)  # fmt: skip
# What takes the bound from below behind the number, and what takes both in any order.
_CLIPS = frozenset({"clamp", "clamp_", "clamp_min", "clamp_min_", "clip", "clip_by_value"})
_LARGER = frozenset({"maximum", "fmax"})
_CHOICES = frozenset({"where", "select"})
_LOWER = ("min", "a_min", "clip_value_min")
_EPSILON = re.compile(r"(?:\w*_)?(?:eps|epsilon|tiny|small)", re.IGNORECASE)
_ONES = frozenset({"ones_like", "ones", "zeros_like", "zeros", "full_like"})


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
    if not isinstance(node, ast.Call) or last_word(node.func) not in _SUMS:
        return set()
    given = [*node.args, *(k.value for k in node.keywords)]
    if isinstance(node.func, ast.Attribute):
        given.append(node.func.value)
    return {each.id for each in given if isinstance(each, ast.Name) and each.id in names}


def _guarded(call: ast.Call) -> Iterator[ast.expr]:
    """What a call keeps from below by a positive number, or replaces where it is not above zero."""
    name, args = last_word(call.func), call.args
    lower = [k.value for k in call.keywords if k.arg in _LOWER]
    if name in _CLIPS:
        if any(map(_is_positive, lower or args[1:2])):  # `clip(total, 1e-8)`
            yield from args[:1]
        if isinstance(call.func, ast.Attribute) and any(map(_is_positive, lower or args[:1])):
            yield call.func.value  # `total.clamp(min=1e-8)`
    elif name in _LARGER or (name == "max" and isinstance(call.func, ast.Name)):
        if any(map(_is_positive, args)):
            yield from (node for node in args if not _is_positive(node))
    elif name in _CHOICES:
        yield from _replaced(args)


def _replaced(args: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The sum of `where(total > 0, total, 1)`, or of `where(total > 0, x / total, 0)`: no other branch hangs on it."""
    match args:
        case [ast.Compare(left=left, ops=[ast.Gt()], comparators=[bound]), taken, other]:
            used = (
                taken.right
                if isinstance(taken, ast.BinOp) and isinstance(taken.op, ast.Div)
                else taken
            )
            above = _is_zero(bound) or _is_positive(bound)
            if above and _same(used, left) and _is_fixed(other):
                yield left


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)


def _is_fixed(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Call) and last_word(node.func) in _ONES
    )


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_positive(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value > 0
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _EPSILON.fullmatch(name) is not None
    return False
