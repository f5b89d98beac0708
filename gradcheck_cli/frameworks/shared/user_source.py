"""What the user wrote, under what a framework or a decorator put around it."""

from __future__ import annotations

import inspect
from types import FunctionType, MethodType
from typing import Any


def plain_functions(*things: Any) -> list[FunctionType]:
    """Plain functions among these, wrappers taken off."""
    found = [inspect.unwrap(thing) for thing in things if callable(thing)]
    bare = [f.__func__ if isinstance(f, MethodType) else f for f in found]
    return [f for f in bare if isinstance(f, FunctionType)]
