"""Sizes of axes beside its arguments' own: of arrays that a function refers to, and of halves that it takes."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from gradcheck_cli.clues.source_text.tree import text_of

_MOST = 4
_HALF = re.compile(r"//\s*2\b|%\s*2\b|\b[ih]?r?fftn?\b|\b[ir]+fft[2n]?\b|nyquist", re.IGNORECASE)


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


def halves(functions: Sequence[Callable[..., Any]]) -> bool:
    """Does one of these take half of an axis, by its text? What becomes of the odd one is easily forgotten."""
    texts = (text for text in map(text_of, functions) if text is not None)
    return any(_HALF.search(ast.unparse(line)) for text in texts for line in text.statements)


def _referred(function: Callable[..., Any]) -> list[Any]:
    inner = inspect.unwrap(function)
    owner = getattr(inner, "__self__", None)
    try:
        names = inspect.getclosurevars(getattr(inner, "__func__", inner))
    except (TypeError, ValueError):
        return []
    held = list(vars(owner).values()) if hasattr(owner, "__dict__") else []
    return [*names.nonlocals.values(), *names.globals.values(), *held]
