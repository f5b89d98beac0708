"""Shapes of what user code holds, which may be anything that calls itself an array."""

from __future__ import annotations

from typing import Any


def shape_of(value: Any) -> tuple[int, ...]:
    """The sizes of the axes of an array; none of anything else, also where asking for them raises."""
    try:
        shape = tuple(value.shape) if hasattr(type(value), "__array__") else ()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return ()
    return shape if all(type(size) is int for size in shape) else ()
