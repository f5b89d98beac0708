"""Tracers that outlive their trace: what a rule puts into a global, a closure or on a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import jax

_DEPTH = 3  # a list in a dictionary of an object
_MOST = 2000  # things that are looked at


def tracers(functions: Sequence[FunctionType]) -> dict[int, str]:
    """Tracers in globals, closures and defaults of these functions: identity → name of the holder."""
    names: dict[int, str] = {}
    budget = _MOST
    for name, value in _surroundings(functions):
        for held in _within(value, _DEPTH):
            budget -= 1
            if isinstance(held, jax.core.Tracer):
                names.setdefault(id(held), name)
            if budget < 0:
                return names
    return names


def _surroundings(functions: Sequence[FunctionType]) -> Iterator[tuple[str, Any]]:
    for function in functions:
        for name in function.__code__.co_names:
            if name in function.__globals__:
                yield name, function.__globals__[name]
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
        for name, cell in cells:
            try:
                yield name, cell.cell_contents
            except ValueError:  # not filled yet
                continue
        for default in function.__defaults__ or ():
            yield f"a default of `{function.__name__}`", default


def _within(value: Any, depth: int) -> Iterator[Any]:
    yield value
    if depth == 0 or isinstance(value, (str, bytes, ModuleType, jax.Array)):
        return
    for part in _parts(value):
        yield from _within(part, depth - 1)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    try:
        return list(vars(value).values())
    except TypeError:
        return []
