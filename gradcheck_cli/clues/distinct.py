"""Whether a text promises that no two places of a table are one: what is written there twice would be another thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.source_text.tree import last_word, text_of

_PROMISES = re.compile(
    r"\b(?:distinct|unique\w*|no two|at most once|only once|twice|permut\w+|repeat\w*|duplicates?|each (?:cell|place) once)\b",
    re.IGNORECASE,
)
_UNIQUE = "unique_indices"  # of JAX's writes
_OVERWRITES = frozenset({"set", "scatter", "scatter_", "index_put", "index_put_", "index_copy", "index_copy_", "tensor_scatter_nd_update", "scatter_update"})  # fmt: skip


def places_are_distinct(function: Callable[..., Any]) -> bool:
    """Do words about the function say so, or does it write to places where the last of two wins?"""
    told = [text.text for text in texts_about(function) if text.near]
    text = text_of(function)
    nodes = (n for top in (text.statements if text else ()) for n in ast.walk(top))
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    promised = any(keyword.arg == _UNIQUE for call in calls for keyword in call.keywords)
    overwrites = any(last_word(call.func) in _OVERWRITES for call in calls)
    return promised or overwrites or any(map(_PROMISES.search, told))
