"""Shapes of what user code holds, which may be anything that calls itself an array, and lengths of rows of numbers."""

from __future__ import annotations

from typing import Any


def shape_of(value: Any) -> tuple[int, ...]:
    """The sizes of the axes of an array; none of anything else, also where asking for them raises."""
    try:
        shape = tuple(value.shape) if hasattr(type(value), "__array__") else ()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return ()
    return shape if all(type(size) is int for size in shape) else ()


def row_length(value: Any) -> int:
    """How many numbers a tuple, a list or an array of one axis holds; 0 of anything else."""
    if isinstance(value, (tuple, list)):
        return len(value) if all(type(each) in (int, float) for each in value) else 0
    shape = shape_of(value)
    return shape[0] if len(shape) == 1 else 0
