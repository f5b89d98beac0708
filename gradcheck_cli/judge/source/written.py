"""All functions in which a user wrote a rule: those that were given as it, and what these call of the same module."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType

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
    """The functions of the same module that this one names."""
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        if isinstance(found, FunctionType) and found.__module__ == function.__module__:
            yield found
