"""A call again where an array that a question counts the axes of has more of them, or fewer: `if x.dim() == 2`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gradcheck_cli.clues.arms import Arm
from gradcheck_cli.infer.explore import Explorer
from gradcheck_cli.infer.template import Hole, Template, template
from gradcheck_cli.inputs.signature import Hints, Signature, last_name
from gradcheck_cli.subject.protocol import CustomGradient, Subject

_COUNTS_AXES = re.compile(r"ndims?\b|\.dim\(\)|\brank\b|\blen\([\w.]*(shape|size\(\))\)")
_NUMBER = re.compile(r"(?<![\w.\[-])\d\b")
_MOST_RANK = 5
_MOST_TRIES = 4


def with_other_ranks(
    gradient: CustomGradient, signature: Signature, dtype: str, hints: Hints, arm: Arm
) -> Iterator[Subject]:
    """The call with each array that the question names of other ranks: those that it asks for first."""
    if not (_COUNTS_AXES.search(arm.words) or arm.names & {"ndim", "dim"}):
        return
    ranks = {leaf.path: len(leaf.shape) for leaf in signature.leaves}
    opened = template(signature, hints.clues, list(hints.specs))
    named = [hole for hole in opened.holes if last_name(hole.path) in arm.named]
    counted = named or [hole for hole in opened.holes if last_name(hole.path) in arm.names]
    ways = (
        (hole, rank)
        for hole in counted
        if hole.path in ranks
        for rank in _ranks(arm.words, ranks[hole.path], stated=hole.settled)
    )
    for hole, rank in itertools.islice(ways, _MOST_TRIES):
        for each in _raised(opened, hole, rank, rank - ranks[hole.path]):
            found = Explorer(gradient, dtype, each).explored()
            if found.subject is not None:
                yield found.subject
                break


def _ranks(words: str, here: int, *, stated: bool) -> list[int]:
    """The numbers of axes that a question speaks of, else one fewer and one more than there are here.

    Where a source states how many there are, only those that the question itself names are meant as well, else one fewer.
    """
    asked = [int(number) for number in _NUMBER.findall(words)]
    near = [n for number in asked for n in (number, number + 1, number - 1)]
    ranks = dict.fromkeys(asked or [here - 1] if stated else near or (here - 1, here + 1))
    return [rank for rank in ranks if 0 <= rank <= _MOST_RANK and rank != here]


def _raised(opened: Template, hole: Hole, rank: int, more: int) -> Iterator[Template]:
    """The call with this array of that rank: it alone, then with the arrays that share the axes it lost or got."""
    yield _at_ranks(opened, {hole.path: rank})
    if hole.dims:
        sharing = [h for h in opened.holes if h.dims and h.dims[0] == hole.dims[0]]
        ranks = {h.path: len(h.dims or ()) + more for h in sharing}
        if len(ranks) > 1 and min(ranks.values()) >= 0:
            yield _at_ranks(opened, ranks)


def _at_ranks(opened: Template, ranks: Mapping[str, int]) -> Template:
    holes = [_at_rank(h, ranks[h.path]) if h.path in ranks else h for h in opened.holes]
    return replace(opened, holes=tuple(holes))


def _at_rank(hole: Hole, rank: int) -> Hole:
    """The array with so many axes: the last ones keep their names, for what comes first is mostly the batch."""
    if hole.dims is None:
        return replace(hole, rank=rank)
    kept = hole.dims[max(len(hole.dims) - rank, 0) :]
    return replace(hole, dims=None, rank=rank, first=(), last=kept)
