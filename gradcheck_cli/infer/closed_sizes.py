"""Sizes that a rule closes over: whole numbers and arrays in the cells of its functions, and in the objects there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import CellType, FunctionType
from typing import Any

from gradcheck_cli.inputs.held_shapes import shape_of


def closed_sizes(functions: Sequence[FunctionType], settings: Mapping[str, int]) -> set[int]:
    """The numbers, and the lengths of the axes of arrays, in what the functions close over and in the objects there.

    `settings` are whole numbers by name: of those that the functions do not take themselves they have these.
    """
    codes = [function.__code__ for function in functions]
    read = {name for code in codes for name in (*code.co_freevars, *code.co_names)}
    chosen = {value for name, value in settings.items() if name in read}
    cells = [cell for function in functions for cell in function.__closure__ or ()]
    held = [each for cell in cells for each in _content(cell)]
    inner = [part for each in held for part in _parts(each)]
    return chosen | {size for each in (*held, *inner) for size in _sizes(each) if size > 1}


def _content(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing yet
        return []


def _parts(value: Any) -> list[Any]:
    """What an object keeps under its names."""
    try:
        return list(vars(value).values())
    except (TypeError, AttributeError, RuntimeError):
        return []


def _sizes(value: Any) -> Iterator[int]:
    if type(value) is int:
        yield value
    elif isinstance(value, list | tuple):
        yield len(value)
    else:
        yield from shape_of(value)
