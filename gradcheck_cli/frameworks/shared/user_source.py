"""The functions that the user wrote, under what a framework or a decorator put around them."""

from __future__ import annotations

import inspect
from types import FunctionType, MethodType
from typing import Any


def plain_functions(*things: Any) -> list[FunctionType]:
    """The plain functions among these objects, wrappers taken off."""
    inner = [inspect.unwrap(thing) for thing in things if callable(thing)]
    bare = [f.__func__ if isinstance(f, MethodType) else f for f in inner]
    return [f for f in bare if isinstance(f, FunctionType)]
