"""Boxes that are given by two corners: the first one lies below the second one, in each direction."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.source_text.tree import text_of
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import last_name

_CORNERS = re.compile(
    r"\bxyxy\b"
    r"|\bx_?(?:[01]|min)\W{1,3}y_?(?:[01]|min)\W{1,3}x_?(?:[12]|max)\W{1,3}y_?(?:[12]|max)\b"
    r"|\bleft\W{1,3}top\W{1,3}right\W{1,3}bottom\b",
    re.IGNORECASE,
)
_FOUR = re.compile(r"[\[\s]4\s*\]$")
_BOXES = re.compile(  # what is called so beside them; `deltas` and `q` are other things
    r"(?:\w+_)?(?:b?box(?:es)?|rois?|rects?|anchors?|proposals?|preds?|predictions?|predicted|targets?|gts?|truths?)\d?"
    r"|b?box(?:es)?_\w+|[ab]",
    re.IGNORECASE,
)


def clues(
    functions: Sequence[Callable[..., Any]], stated: Mapping[str, Sequence[Clue]]
) -> dict[str, Clue]:
    """Of arrays of boxes, by their names and four columns, where a text calls four numbers by their corners."""
    said = next((m.group() for text in _texts(functions) if (m := _CORNERS.search(text))), None)
    if said is None:
        return {}
    found = Clue(f"the words `{said}`", domain="in boxes")
    specs = {path: next((c.spec for c in each if c.spec), "") for path, each in stated.items()}
    return {
        path: found
        for path, spec in specs.items()
        if _FOUR.search(spec) and _BOXES.fullmatch(last_name(path))
    }


def _texts(functions: Sequence[Callable[..., Any]]) -> Iterator[str]:
    for function in functions:
        yield from (text.text for text in texts_about(function) if text.near)
        written = text_of(function)
        yield from () if written is None else map(ast.unparse, written.statements)
