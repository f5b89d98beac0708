"""Functions with those of their own module that their texts name: their helpers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

_DEEPEST = 2  # helpers of helpers


def with_helpers(functions: Sequence[Callable[..., Any]]) -> list[Callable[..., Any]]:
    """The functions, then what they name of their module, each once."""
    found: dict[int, Callable[..., Any]] = {id(inspect.unwrap(f)): f for f in functions}
    nearest = list(functions)
    for _ in range(_DEEPEST):
        named = [helper for function in nearest for helper in _named(function)]
        nearest = [helper for helper in named if id(helper) not in found]
        found |= {id(helper): helper for helper in nearest}
    return list(found.values())


def _named(function: Callable[..., Any]) -> Iterator[FunctionType]:
    inner = inspect.unwrap(function)
    code, scope = getattr(inner, "__code__", None), getattr(inner, "__globals__", {})
    for name in () if code is None else code.co_names:
        value = scope.get(name)
        if isinstance(value, FunctionType) and value.__globals__ is scope:
            yield value
