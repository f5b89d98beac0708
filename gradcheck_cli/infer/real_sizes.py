"""Sizes of real data: small ones in their place, and the very ones where a function takes no smaller: 48 hours, in halves of 24."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Hints, Parameter

_SIZE = re.compile(
    r"\bd(?P<size>\d+)\b"
)  # what an axis is called of which a call only shows the length
_BODY = "the body"
_BRACKETS, _NUMBER = re.compile(r"\[([^\[\]]*:[^\[\]]*)\]"), re.compile(r"\b\d+\b")
_SMALL = (2, 3)
_LEAST = 7  # what is smaller is met by the sizes that are tried anyway


def small_count(parameter: Parameter) -> Clue:
    """A count that small arrays can have, in place of one of real data: 2 groups for 32."""
    source = f"small beside its default {parameter.default}"
    return Clue(source, values=_SMALL, kind=Kind.WHOLE)


def with_real_sizes(hints: Hints) -> Hints | None:
    """The hints with each axis as long as in a call, whose length, or a part of it, the body counts with; None where none is so."""
    counted = {
        number for each in hints.clues.values() for clue in each for number in _counted(clue)
    }

    def at_its_size(clue: Clue) -> Clue:
        return replace(clue, spec=_SIZE.sub(lambda axis: _real(axis, counted), clue.spec))

    clues = {name: [at_its_size(clue) for clue in each] for name, each in hints.clues.items()}
    same = all(list(each) == list(hints.clues[name]) for name, each in clues.items())
    return None if same else replace(hints, clues=clues)


def _counted(clue: Clue) -> Iterator[int]:
    """Numbers in the brackets of what is quoted of the body: 24 of `pattern[:, :24]`."""
    if clue.source.startswith(_BODY):
        for inside in _BRACKETS.findall(clue.source):
            yield from (int(n) for n in _NUMBER.findall(inside) if int(n) >= _LEAST)


def _real(axis: re.Match[str], counted: Collection[int]) -> str:
    size = int(axis["size"])
    return str(size) if any(size % number == 0 for number in counted) else axis[0]
