"""Numbers of axes that a rule is written for, as the gradients say that it returns for arrays of fewer.

Attention over batch and heads takes matrices by accident: its mask has axes of one before them, and so has what
the rule returns. Shapes that are tried in order reach arrays of four axes too late. And where a gradient ends in an
axis of one, so does its argument: `tau` of each row stands as a column beside them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.infer.mismatch import returned_for
from gradcheck_cli.infer.sizes import Size, Solution
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.subject.refusals import RuleError

_MOST_RANK = 4
_MOST = 4
_SEVERAL = 2  # axes that no sum over a batch has forgotten
# The argument of which a framework tells, or its place.
_TOLD = re.compile(r"gradient of (?P<name>\S+) has the shape|(?:output\[|at index )(?P<place>\d+)")


@dataclass(frozen=True, slots=True)
class Ranks:
    """How many axes each array has, how many of these stand before those that it was tried with, and which is a column."""

    axes: tuple[int, ...]
    leading: tuple[int, ...]
    column: int | None = None  # the place of an array whose last axis is one

    def bound(self, shapes: Sequence[Sequence[Size]]) -> Solution:
        """The leading axes of all such arrays bound to those of the last; the last axis of a column to one."""
        if self.column is not None:
            ((last, _),) = shapes[self.column][-1].terms
            return Solution({last: Size(constant=1)})
        led = [shape[:n] for shape, n in zip(shapes, self.leading, strict=True)]
        first = max(reversed(led), key=len)  # whose sizes are small while shapes are explored
        pairs = ((size, mine) for shape in led for size, mine in zip(shape, first, strict=False))
        return Solution(
            {size.terms[0][0]: mine for size, mine in pairs if size.terms and size != mine}
        )


def returned_ranks(
    refused: Sequence[tuple[Signature, RuleError]], paths: Sequence[str]
) -> list[Ranks]:
    """What the arrays at these paths may be meant to be, the likeliest first."""
    found: dict[Ranks, None] = {}
    for signature, error in refused:
        ranks = {leaf.path: len(leaf.shape) for leaf in signature.leaves}
        if not paths or not all(path in ranks for path in paths):
            continue
        of_call = tuple(ranks[path] for path in paths)
        told = _TOLD.search(error.message)
        place = None if told is None else _place(told, paths)
        if place is None:
            continue
        for got, wanted in returned_for(error.message):
            if got == (*wanted, 1):
                axes = (*of_call[:place], len(got), *of_call[place + 1 :])
                found[Ranks(axes, (0,) * len(axes), place)] = None
            if place:
                continue  # the gradients before are as they are meant: it is this one that lacks a sum
            more = len(got) - len(wanted)
            if more >= _SEVERAL or (more == 1 and got[0] == 1):
                found |= dict.fromkeys(_raised(of_call, len(wanted), more))
    fitting = [ranks for ranks in found if max(ranks.axes) <= _MOST_RANK]
    return fitting[:_MOST]


def _place(told: re.Match[str], paths: Sequence[str]) -> int | None:
    """The place among these paths of the argument that is told of."""
    if told["name"] is not None:
        return paths.index(told["name"]) if told["name"] in paths else None
    return int(told["place"]) if int(told["place"]) < len(paths) else None


def _raised(ranks: Sequence[int], rank: int, more: int) -> list[Ranks]:
    """All arrays with so many axes more; those alone that have as many axes as the one that is told of."""
    every, alone = ([more] * len(ranks), [more * (each == rank) for each in ranks])
    return [
        Ranks(tuple(map(sum, zip(ranks, leading, strict=True))), tuple(leading))
        for leading in (every, alone)
    ]
