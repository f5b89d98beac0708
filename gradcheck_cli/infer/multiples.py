"""Axes that a whole number divides into parts: multiples of it, so that there are several parts of several elements."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gradcheck_cli.infer.given_sizes import entries, given_values, with_given_sizes
from gradcheck_cli.infer.shares import in_shares
from gradcheck_cli.infer.template import Hole, Template
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.names import is_extent
from gradcheck_cli.inputs.signature import Hints

_AXES = re.compile(r"\w+\[(?P<axes>[^\[\]]*)\]")
_PARTS = re.compile(r"(\d+)\*")
_LARGEST = 16  # more parts than that are too many numbers


def with_multiples(opened: Template, hints: Hints, defaults: Mapping[str, object]) -> Template:
    """The call with each axis that an argument, or the text, divides as a multiple of that: `8*channels`."""
    factors: dict[str, int] = {}
    for number, dim in _divided(opened, hints, defaults):
        for axis in _called(dim, opened.holes, hints) if 1 < number <= _LARGEST else ():
            factors[axis] = math.lcm(number, factors.get(axis, 1))
    for axis, count in (pair for hole in opened.holes for pair in _in_equal_parts(hole, hints)):
        factors[axis] = math.lcm(count, factors.get(axis, 1))
    told = with_given_sizes(opened, hints, defaults)
    return replace(told, holes=in_shares([_multiplied(hole, factors) for hole in told.holes]))


def _divided(
    opened: Template, hints: Hints, defaults: Mapping[str, object]
) -> Iterator[tuple[int, str]]:
    """Whole numbers among the arguments, each with a dimension that it divides."""
    for name, value in given_values(opened, hints, defaults):
        if type(value) is int:
            dims = {dim for clue in hints.clues.get(name, ()) for dim in clue.divides}
            yield from ((value, dim) for dim in dims)
        for entry, each in entries(name, value, hints):
            yield from ((each, dim) for dim in entry.divides)


def _in_equal_parts(hole: Hole, hints: Hints) -> Iterator[tuple[str, int]]:
    """The axes that one source names and another cuts into so many parts: `x: [T, D]` and `x.shape[-1] // 2`."""
    dims = hole.dims or ()
    for clue in hints.clues.get(hole.path, ()):
        ends = [*zip(dims, clue.first, strict=False), *zip(dims[::-1], clue.last[::-1], strict=False)]  # fmt: skip
        for dim, text in ends:
            parts = _PARTS.match(text)
            if parts is None or (is_extent(dim) and parts[1] == "2"):
                continue  # half of a window is its centre
            if int(parts[1]) <= _LARGEST:
                yield dim, int(parts[1])


def _called(dim: str, holes: tuple[Hole, ...], hints: Hints) -> Iterator[str]:
    """What the holes call an axis that some source calls so."""
    named = list(_named(dim, holes, hints))
    yield from named
    capital = dim.upper() if len(dim) == 1 and not named else ""
    if any(capital in (hole.dims or ()) for hole in holes):  # `(..., N, N, D)`, and `n // box[0]`
        yield capital


def _named(dim: str, holes: tuple[Hole, ...], hints: Hints) -> Iterator[str]:
    """What the holes call it by the place that a source gives it."""
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

    def multiplied(dim: str) -> str:
        times, _, name = dim.rpartition("*")
        if name not in factors or not name.isidentifier() or not (times.isdigit() or not times):
            return dim
        return f"{factors[name] * int(times or 1)}*{name}"

    return replace(hole, dims=tuple(multiplied(dim) for dim in hole.dims))
