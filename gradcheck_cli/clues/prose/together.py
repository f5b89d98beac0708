"""Shapes that a text gives without a parameter's name: `(n, d), (m, d) -> (n, m)`, `the other two (n,)`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from gradcheck_cli.clues.prose.dims import BRACKETS, Dims, probable
from gradcheck_cli.clues.prose.shapes import Shape

_ARROW = re.compile(
    rf"(?<!\w)(?P<taken>{BRACKETS}(?:\s*(?:,|,?\s*and\b|&)\s*{BRACKETS})*)\s*(?:->|→|=>|\bto\b)\s*(?={BRACKETS})"
)
_ANY = re.compile(r"[(\[]\s*\.\.\.\s*,?\s*[)\]]")  # any number of axes: no shape
_NUMBERS = {"both": 2, "two": 2, "three": 3, "four": 4, "five": 5}
# `of two (n, d) embeddings`: one shape for each of so many; `for (n, t, c) sequences`: that of the first.
_COUNTED = re.compile(
    rf"\b(?P<count>{'|'.join(_NUMBERS)})\s+(?:batches of\s+)?(?P<dims>{BRACKETS})\s+(?!->|→)[a-z]",
    re.IGNORECASE,
)
_OF_SUCH = re.compile(
    rf"\b(?:for|of)\s+(?:an?\s+)?(?P<dims>{BRACKETS})\s+(?!->|→|and\b|or\b|to\b|is\b|in\b)[a-z]"
)
_LEAST_AXES, _MOST_BRACKETS = (
    2,
    3,
)  # one axis may be a word in brackets; of many shapes, nobody knows whose
_OTHERS = re.compile(
    rf"\b(?:(?:the|all)\s+others?|the rest)(?:\s+(?P<count>{'|'.join(_NUMBERS)})\b)?"
    r"(?:\s+(?:arguments?|arrays?|inputs?|parameters?|tensors?))?\W{0,2}"
    rf"(?:(?:all|is|are|have|has|both|of|shapes?|with)\s+)*(?P<dims>{BRACKETS})",
    re.IGNORECASE,
)


def unnamed_shapes(
    text: str, names: Sequence[str], told: Mapping[str, bool], certain: Collection[str]
) -> dict[str, Shape]:
    """Shapes of parameters of which the text says nothing by their name.

    `told` says of each parameter whether the text gives it dimensions; `certain` are names of the text
    that are dimensions for sure.
    """
    if not any(told.values()):
        return _before_the_arrow(text, names, certain) or _of_such(text, names, certain)
    match = _OTHERS.search(text)
    dims = None if match is None else probable(match["dims"], certain)
    left = [name for name in names if not told[name]]
    if match is None or dims is None or len(left) != _NUMBERS.get(match["count"] or "", len(left)):
        return {}
    return {name: Shape(match.group(), dims) for name in left}


def _before_the_arrow(
    text: str, names: Sequence[str], certain: Collection[str]
) -> dict[str, Shape]:
    """The shapes of the first parameters, from what a function makes of what."""
    match = _ARROW.search(text)
    if match is None:
        return {}
    parts = re.findall(BRACKETS, match["taken"])
    taken = dict(zip(names, parts, strict=False))
    known = {n: probable(part, certain) for n, part in taken.items() if not _ANY.fullmatch(part)}
    shapes = {name: _shape(dims) for name, dims in known.items() if dims is not None}
    return shapes if len(shapes) == len(known) and len(parts) <= len(names) else {}


def _of_such(text: str, names: Sequence[str], certain: Collection[str]) -> dict[str, Shape]:
    """The shape of the first parameters, from the only shape that the text has."""
    if len(re.findall(BRACKETS, text)) > _MOST_BRACKETS:
        return {}
    counted, single = _COUNTED.search(text), _OF_SUCH.search(text)
    match = counted or single
    dims = None if match is None else probable(match["dims"], certain)
    count = 1 if counted is None else _NUMBERS[counted["count"].lower()]
    if dims is None or len(dims.names) < _LEAST_AXES or count > len(names):
        return {}
    return {name: _shape(dims) for name in names[:count]}


def _shape(dims: Dims) -> Shape:
    return Shape(f"({', '.join(dims.names)})", dims)
