"""Shapes that are made up, with sizes that can be divided where a source says that they are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from gradcheck_cli.inputs.clue import Clue

_TIMES = re.compile(r"(\d+)\*")


def divisible(shape: tuple[int, ...], clues: Sequence[Clue]) -> tuple[int, ...]:
    """The shape with each size that has to be a multiple of a number as many times as long, if it is none."""
    factors = [1] * len(shape)
    for clue in clues:
        for axis, factor in _factors(clue, len(shape)):
            factors[axis] = math.lcm(factors[axis], factor)
    return tuple(n if n % f == 0 else n * f for n, f in zip(shape, factors, strict=True))


def _factors(clue: Clue, rank: int) -> Iterator[tuple[int, int]]:
    """Axes, and what their sizes are multiples of."""
    yield from ((axis, clue.factor) for axis in range(rank))
    if len(clue.last) <= rank >= len(clue.first):
        placed = [*enumerate(clue.first), *enumerate(clue.last, rank - len(clue.last))]
        times = ((axis, _TIMES.match(text)) for axis, text in placed)
        yield from ((axis, int(match[1])) for axis, match in times if match is not None)
