"""Axes that a whole number divides into parts: multiples of it, so that there are several parts of several elements."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gradcheck_cli.infer.template import Hole, Template
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import Fixed, Hints

_AXES = re.compile(r"\w+\[(?P<axes>[^\[\]]*)\]")
_PARTS = re.compile(r"(\d+)\*")
_LARGEST = 16  # more parts than that are too many numbers


def with_multiples(opened: Template, hints: Hints, defaults: Mapping[str, object]) -> Template:
    """The call with each axis that an argument, or the text, divides as a multiple of that: `8*channels`."""
    given = dict(opened.signature.arguments)
    factors: dict[str, int] = {}
    for name, clues in hints.clues.items():
        value = given.get(name)
        number = value.value if isinstance(value, Fixed) else defaults.get(name)
        if type(number) is not int or not 1 < number <= _LARGEST:
            continue
        for dim in {dim for clue in clues for dim in clue.divides}:
            for axis in _called(dim, opened.holes, hints):
                factors[axis] = math.lcm(number, factors.get(axis, 1))
    for axis, count in (pair for hole in opened.holes for pair in _in_equal_parts(hole, hints)):
        factors[axis] = math.lcm(count, factors.get(axis, 1))
    return replace(opened, holes=tuple(_multiplied(hole, factors) for hole in opened.holes))


def _in_equal_parts(hole: Hole, hints: Hints) -> Iterator[tuple[str, int]]:
    """The axes that one source names and another cuts into so many parts: `x: [T, D]` and `x.shape[-1] // 2`."""
    dims = hole.dims or ()
    for clue in hints.clues.get(hole.path, ()):
        ends = [*zip(dims, clue.first, strict=False), *zip(dims[::-1], clue.last[::-1], strict=False)]  # fmt: skip
        for dim, text in ends:
            parts = _PARTS.match(text)
            if parts is not None and int(parts[1]) <= _LARGEST:
                yield dim, int(parts[1])


def _called(dim: str, holes: tuple[Hole, ...], hints: Hints) -> Iterator[str]:
    """What the holes call an axis that some source calls so."""
    for hole in holes:
        for clue in hints.clues.get(hole.path, ()):
            axes = _axes(clue)
            if hole.dims is not None and len(axes) == len(hole.dims) and dim in axes:
                yield hole.dims[axes.index(dim)]


def _axes(clue: Clue) -> list[str]:
    match = _AXES.match(clue.spec)
    return [] if match is None else match["axes"].split()


def _multiplied(hole: Hole, factors: Mapping[str, int]) -> Hole:
    if hole.dims is None:
        return hole
    dims = (f"{factors[d]}*{d}" if d in factors and d.isidentifier() else d for d in hole.dims)
    return replace(hole, dims=tuple(dims))
