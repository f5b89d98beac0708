"""Sizes that a rule closes over: whole numbers and arrays of the object or the function that made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import CellType, FunctionType
from typing import Any


def closed_sizes(functions: Sequence[FunctionType], settings: Mapping[str, int]) -> set[int]:
    """The numbers, and the lengths of the axes of arrays, in what the functions close over and in the objects there.

    `settings` are whole numbers by name: of those that the functions do not take themselves they have these.
    """
    codes = [function.__code__ for function in functions]
    read = {name for code in codes for name in (*code.co_freevars, *code.co_names)}
    chosen = {value for name, value in settings.items() if name in read}
    cells = [cell for function in functions for cell in function.__closure__ or ()]
    held = [each for cell in cells for each in _content(cell)]
    inner = [part for each in held for part in list(getattr(each, "__dict__", {}).values())]
    return chosen | {size for each in (*held, *inner) for size in _sizes(each) if size > 1}


def _content(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing yet
        return []


def _sizes(value: Any) -> Iterator[int]:
    if type(value) is int:
        yield value
    elif hasattr(type(value), "__array__"):
        yield from (size for size in value.shape if type(size) is int)
