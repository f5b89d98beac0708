"""All functions in which a user wrote a rule: those that were given as it, and what these call of the same module."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType

from gradcheck_cli.subject.protocol import CustomGradient

_DEEPEST = 2


def written(gradient: CustomGradient) -> Iterator[FunctionType]:
    """The rule's own functions first, then their helpers, the nearest first."""
    latest = list(gradient.rule_code())
    seen: list[FunctionType] = []
    for _ in range(_DEEPEST + 1):
        fresh = [function for function in dict.fromkeys(latest) if function not in seen]
        yield from fresh
        seen += fresh
        latest = [helper for function in fresh for helper in _helpers(function)]


def _helpers(function: FunctionType) -> Iterator[FunctionType]:
    """The functions of the same module that this one names, or one that is defined in it."""
    for name in _names(function.__code__):
        found = function.__globals__.get(name)
        if isinstance(found, FunctionType) and found.__module__ == function.__module__:
            yield found


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
