"""Shapes that a text gives without a parameter's name: `(n, d), (m, d) -> (n, m)`, `the other two (n,)`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from gradcheck_cli.infer.prose.dims import BRACKETS, Dims, probable
from gradcheck_cli.infer.prose.shapes import Shape

_ARROW = re.compile(
    rf"(?<!\w)(?P<taken>{BRACKETS}(?:\s*,\s*{BRACKETS})*)\s*(?:->|→|=>|\bto\b)\s*(?={BRACKETS})"
)
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5}
_OTHERS = re.compile(
    rf"\b(?:(?:the|all)\s+others?|the rest)(?:\s+(?P<count>{'|'.join(_NUMBERS)}))?"
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
        return _before_the_arrow(text, names, certain)
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
    taken = [probable(part, certain) for part in re.findall(BRACKETS, match["taken"])]
    known = [dims for dims in taken if dims is not None]
    if len(known) < len(taken) or len(taken) > len(names):
        return {}
    return {name: _shape(dims) for name, dims in zip(names, known, strict=False)}


def _shape(dims: Dims) -> Shape:
    return Shape(f"({', '.join(dims.names)})", dims)
