"""Arguments for which a rule says outright that it gives no gradient: `return g * y, None`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.returned import returned_inside, returned_tuples
from gradcheck_cli.clues.source_text.roles import is_forward
from gradcheck_cli.clues.source_text.tree import last_word, text_of
from gradcheck_cli.inputs.signature import Parameter

_ZEROS = frozenset({"zeros_like", "zeros", "new_zeros"})


def withheld(
    rule: Sequence[Callable[..., Any]], parameters: Sequence[Parameter]
) -> dict[str, list[ast.expr]]:
    """What every `return` of a function of the rule says in the place of each argument, where that is None or zeros."""
    orders = ([p.name for p in parameters], [p.name for p in parameters if p.differentiable])
    found: dict[str, list[ast.expr]] = {}
    for function in rule:
        read = returned_inside if _is_forward(function, parameters) else returned_tuples
        returned = [tuple_.elts for tuple_ in read(function)]
        names = next((o for o in orders if any(len(r) == len(o) for r in returned)), [])
        given = zip(names, *(r for r in returned if len(r) == len(names)), strict=True)
        found |= {name: each for name, *each in given if all(map(_is_nothing, each))}
    return found


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_nothing(node: ast.expr) -> bool:
    return is_none(node) or (isinstance(node, ast.Call) and last_word(node.func) in _ZEROS)


def _is_forward(function: Callable[..., Any], parameters: Sequence[Parameter]) -> bool:
    """Does it compute the value, and return what it keeps for the rule?"""
    text = text_of(function)
    named = getattr(function, "__name__", "") in ("forward", "setup_context")
    return named or (text is not None and is_forward(text, [p.name for p in parameters]))
