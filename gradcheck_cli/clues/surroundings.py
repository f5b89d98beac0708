"""Dimensions of the arrays that a function refers to: what it multiplies must fit its weight."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_MOST = 4


def sizes(function: Callable[..., Any]) -> list[int]:
    """Dimensions of arrays among its globals, its closure and its object, each once."""
    dimensions: dict[int, None] = {}
    for value in _referred(function):
        try:
            dims = [int(n) for n in getattr(value, "shape", ())]
        except (TypeError, ValueError):
            continue
        dimensions |= dict.fromkeys(n for n in dims if n > 1)
    return list(dimensions)[:_MOST]


def _referred(function: Callable[..., Any]) -> list[Any]:
    inner = inspect.unwrap(function)
    owner = getattr(inner, "__self__", None)
    try:
        names = inspect.getclosurevars(getattr(inner, "__func__", inner))
    except (TypeError, ValueError):
        return []
    held = list(vars(owner).values()) if hasattr(owner, "__dict__") else []
    return [*names.nonlocals.values(), *names.globals.values(), *held]
