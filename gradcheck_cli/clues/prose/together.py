"""Shapes that a text gives without a parameter's name: `(n, d), (m, d) -> (n, m)`, `the other two (n,)`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gradcheck_cli.clues.prose.dims import BRACKETS, PLURAL, Dims, probable, stated
from gradcheck_cli.clues.prose.shapes import Shape

# What an array holds, right before its shape: `(B, L, V), bool (B, L) -> (B, V)`.
_TYPE = r"(?:(?:bool|int(?:32|64)?|long)\s+)?"
_ARROW = re.compile(
    rf"(?<!\w)(?P<taken>{_TYPE}{BRACKETS}(?:\s*(?:,|,?\s*and\b|&)\s*{_TYPE}{BRACKETS})*)\s*(?:->|→|=>|\bto\b)\s*(?={BRACKETS})"
)
_TYPED = re.compile(rf"({_TYPE})({BRACKETS})")
_ANY = re.compile(r"[(\[]\s*\.\.\.\s*,?\s*[)\]]")  # any number of axes: no shape
_NUMBERS = {"both": 2, "two": 2, "three": 3, "four": 4, "five": 5}
# `of two (n, d) embeddings`: one shape for each of so many; `for (n, t, c) sequences`: that of the first.
_COUNTED = re.compile(
    rf"\b(?P<count>{'|'.join(_NUMBERS)})\s+(?:batches of\s+)?(?P<dims>{BRACKETS})\s+(?!->|→)[a-z]",
    re.IGNORECASE,
)
_OF_SUCH = re.compile(
    rf"\b(?:for|of|along|over|on)\s+(?:an?\s+)?(?P<dims>{BRACKETS})\s+(?!->|→|and\b|or\b|to\b|is\b|in\b)[a-z]"
)
# `f(xy, speed, noise) with shapes (B, N, 2), (B,), (B, N)`.
_CALL = re.compile(
    rf"\((?P<names>[^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)+)\)\W{{0,3}}\s*(?:with|of|for|on)\s+(?:the\s+)?shapes\s+"
    rf"(?P<shapes>{BRACKETS}(?:\s*(?:,\s*and\b|,|\band\b|&)\s*{BRACKETS})*)"
)
# `Cells of the raster [G, 2]`, where a sentence begins.
_OF_A_WHOLE = re.compile(
    r"(?:\A|[.\n])\s*(?P<name>[A-Z][a-z_]{2,}s)\s+of\s+(?:the|an?|each)\s+[a-z]+\s+(?P<dims>\[(?=[^\[\]]*[A-Z\d])[^\[\]]*,[^\[\]]*\])"
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


@dataclass(frozen=True, slots=True)
class Unnamed:
    """The shape of an argument that the text does not name, and what it says of it."""

    shape: Shape
    about: str


def unnamed_shapes(
    text: str, told: Mapping[str, bool], plain: Collection[str], certain: Collection[str]
) -> dict[str, Unnamed]:
    """Shapes of parameters of which the text says nothing by their name.

    `told` says of each parameter whether the text gives it dimensions; `plain` are those of which it says that
    they are something else; `certain` are names of the text that are dimensions for sure.
    """
    left = [name for name, shaped in told.items() if not shaped and name not in plain]
    if not any(told.values()):
        found = {} if plain else _before_the_arrow(text, left, certain)
        if found := found or _of_such(text, left, certain):
            return found
    if found := _of_a_call(text, left) | _of_wholes(text, left):
        return found
    match = _OTHERS.search(text)
    dims = None if match is None else probable(match["dims"], certain)
    if match is None or dims is None or len(left) != _NUMBERS.get(match["count"] or "", len(left)):
        return {}
    return {name: Unnamed(Shape(match.group(), dims), match.group()) for name in left}


def _before_the_arrow(
    text: str, names: Sequence[str], certain: Collection[str]
) -> dict[str, Unnamed]:
    """The shapes of the first parameters, from what a function makes of what."""
    match = _ARROW.search(text)
    if match is None:
        return {}
    parts = [m.groups() for m in _TYPED.finditer(match["taken"])]
    taken = dict(zip(names, parts, strict=False))
    known = {
        n: (kind, probable(p, certain)) for n, (kind, p) in taken.items() if not _ANY.fullmatch(p)
    }
    shapes = {n: _unnamed(dims, kind) for n, (kind, dims) in known.items() if dims is not None}
    return shapes if len(shapes) == len(known) and len(parts) <= len(names) else {}


def _of_a_call(text: str, names: Collection[str]) -> dict[str, Unnamed]:
    """The shapes of what a call names, told in its order behind it."""
    found: dict[str, Unnamed] = {}
    for match in _CALL.finditer(text):
        called = re.findall(r"\w+", match["names"])
        shapes = [stated(written) for written in re.findall(BRACKETS, match["shapes"])]
        if len(called) == len(shapes):
            pairs = zip(called, shapes, strict=True)
            found |= {name: _unnamed(dims) for name, dims in pairs if name in names and dims}
    return found


def _of_wholes(text: str, names: Collection[str]) -> dict[str, Unnamed]:
    """The shapes of parameters by which a sentence begins, with a capital."""
    said = {m["name"].lower(): stated(m["dims"]) for m in _OF_A_WHOLE.finditer(text)}
    return {name: _unnamed(dims) for name, dims in said.items() if name in names and dims}


def _of_such(text: str, names: Sequence[str], certain: Collection[str]) -> dict[str, Unnamed]:
    """The shape of the first parameters, from the only shape that the text has."""
    if len(re.findall(BRACKETS, text)) > _MOST_BRACKETS:
        return {}
    counted, single = _COUNTED.search(text), _OF_SUCH.search(text)
    match = counted or single
    dims = None if match is None else probable(match["dims"], certain) or _of_plurals(match["dims"])
    count = 1 if counted is None else _NUMBERS[counted["count"].lower()]
    if dims is None or len(dims.names) < _LEAST_AXES or count > len(names):
        return {}
    return {name: _unnamed(dims) for name in names[:count]}


def _of_plurals(written: str) -> Dims | None:
    """Axes that are called what they go along, by whatever words: `of (days, names)`."""
    dims = stated(written)
    plural = dims is not None and all(map(PLURAL.fullmatch, dims.names))
    return dims if plural else None


def _unnamed(dims: Dims, kind: str = "") -> Unnamed:
    written = f"({', '.join(dims.names)})"
    return Unnamed(Shape(written, dims), kind + written)
